"""An audit of a run: a page to look at, and its figures as a table."""

from negcap.pipelines.quality.audit.audit import PAGE, TABLE, audit
from negcap.pipelines.quality.audit.config import AuditConfig

__all__ = ["PAGE", "TABLE", "AuditConfig", "audit"]
