"""Audit a run: its counts and blind accuracies as one self-contained HTML page, and as a Parquet table."""

from .figures import AuditConfig
from .page import PAGE, TABLE, audit

__all__ = ["PAGE", "TABLE", "AuditConfig", "audit"]
