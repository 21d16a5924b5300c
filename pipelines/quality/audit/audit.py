"""Audit a run: its counts and blind accuracies as one self-contained HTML page, and as a Parquet table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ....schemas.negatives import AUDIT
from ...engine.manifest import read_manifest
from ...engine.progress import Progress
from ...engine.provenance import package
from ...engine.shards import PARQUET
from ...engine.storage import write_atomically
from ...engine.tables import has_table, no_table
from ...report.summary import component_lines, corpus_lines
from ...tables.columns import stored_splits
from ..bias import Blindness
from ..strata import Sampling, sample_strata
from .figures import AuditConfig, collect, measure_table, read_corpus_counts, to_table
from .page import Content, Samples, page, read_context

PAGE, TABLE = "audit.html", "audit.parquet"
REFUSED_SHARE = 3  # per reason, a third as many refused candidates are shown as negatives


def audit(run: Path, output: Path, config: AuditConfig, progress: Progress) -> tuple[Path, Path]:
    """Write the audit page (HTML) and table (Parquet) of a run into the folder `output`; returns their paths.

    The same run gives the same bytes. Raises FileNotFoundError if the run lacks a table, ValueError for a missing
    column or unknown split, NotADirectoryError if `output` is not a folder, DamagedShardError for a shard that cannot
    be read.
    """
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"output must be a folder, was: {output}")
    figures = collect(run, config.splits)
    table = "refined" if config.refined else "negatives"
    if table not in figures.made:
        raise no_table(run, table)
    corpus = read_corpus_counts(run)
    blindness: dict[str, Blindness] = {}
    for name in ("negatives", "refined") if config.blind else ():
        if figures.made.get(name):
            blindness[name] = measure_table(run, name, config, progress, list(figures.families))
    samples = read_samples(run, table, config)
    provenance = origin(run, table)
    opening_lines = [*corpus_lines(run), *component_lines(run), *splits_line(config.splits)]
    context = read_context(run, samples.rows, config.images)
    html = page(Content(figures, blindness, corpus, samples, context, opening_lines, provenance, table, config))
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / PAGE, html.encode())
    write_atomically(output / TABLE, parquet(to_table(figures, blindness, corpus), provenance))
    return output / PAGE, output / TABLE


def read_samples(run: Path, table: str, config: AuditConfig) -> Samples:
    """Sample the rows to show: of `table` and of positives by operator, of rejections by operator and reason."""
    only = {"split": stored_splits(config.splits)} if config.splits else {}
    some = Sampling(config.n, config.seed, only=only)
    few = Sampling(-(-config.n // REFUSED_SHARE), config.seed, only=only)
    return Samples(
        {name: rows for (name,), rows in sample_strata(run, table, ["operator"], some).items()},
        sample_strata(run, "rejections", ["operator", "reason"], few),
        {name: rows for (name,), rows in sample_strata(run, "positives", ["operator"], some).items()},
    )


def splits_line(splits: Sequence[str]) -> list[str]:
    """A line that names the splits shown; none if all splits are shown."""
    return [f"what follows is of the split {' and '.join(splits)} only"] if splits else []


def origin(run: Path, table: str) -> dict[str, str]:
    """The provenance of a table from its manifest; if it has none, the version of this package."""
    manifest = read_manifest(run / table)
    return manifest.identity.provenance() if manifest is not None and has_table(run, table) else package()


def parquet(table: object, metadata: Mapping[str, str]) -> memoryview:
    """The audit table as the bytes of a Parquet file; metadata: added to its schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ....schemas.fields import check

    assert isinstance(table, pa.Table)
    check(table, AUDIT)
    sink = pa.BufferOutputStream()
    pq.write_table(table.cast(AUDIT.with_metadata({**(AUDIT.metadata or {}), **metadata})), sink, **PARQUET)
    return memoryview(sink.getvalue())
