"""An audit of a run: an HTML page, and its numbers as a Parquet table."""

from .audit import PAGE, TABLE, audit
from .figures import AuditConfig

__all__ = ["PAGE", "TABLE", "AuditConfig", "audit"]
