"""An audit of a run: an HTML page, and its numbers as a Parquet table."""

from negcap.pipelines.quality.audit.audit import PAGE, TABLE, audit
from negcap.pipelines.quality.audit.config import AuditConfig

__all__ = ["PAGE", "TABLE", "AuditConfig", "audit"]
