"""Look at a run: every figure as a page that needs nothing but a browser, and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from negcap.pipelines.engine.bounds import at_least
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.engine.provenance import package
from negcap.pipelines.engine.shards import PARQUET, list_shards, write_atomically
from negcap.pipelines.engine.stage import Progress
from negcap.pipelines.quality.audit.blindness import Blindness, measured
from negcap.pipelines.quality.audit.figures import collect
from negcap.pipelines.quality.audit.page import Samples, page
from negcap.pipelines.quality.audit.table import to_table
from negcap.pipelines.quality.audit.words import read_corpus_counts
from negcap.pipelines.quality.strata import draw
from negcap.pipelines.report.summary import component_lines, corpus_lines
from negcap.schemas.audit import AUDIT

PAGE, TABLE = "audit.html", "audit.parquet"
REFUSED_SHARE = 3


@dataclass(frozen=True)
class AuditConfig:
    """What an audit shows.

    n: random negatives an operator (a third as many refusals for every reason); refined: show and plot the table
    refined instead of negatives; splits: rows of these only, empty: of all; limit: pairs an operator that the blind
    baselines are measured on. Raises ValueError for n or limit below 1, or an empty title.
    """

    n: int = 12
    seed: int = 0
    refined: bool = False
    splits: tuple[str, ...] = ()
    blind: bool = True
    limit: int = 100_000
    title: str = "Negative captions, audited"

    def __post_init__(self) -> None:
        at_least(self, 1, ("n", "limit"))
        if not self.title.strip():
            raise ValueError("title must not be empty")


def audit(run: Path, output: Path, config: AuditConfig, progress: Progress) -> tuple[Path, Path]:
    """Write the page and the table of a run into the folder `output`; their paths. The same run gives the same bytes.

    Raises FileNotFoundError for a table that the run lacks, ValueError for one without a column or a split that the
    captions lack, NotADirectoryError where `output` is no folder, OSError, DamagedShardError.
    """
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"output must be a folder, was: {output}")
    figures = collect(run, config.splits)
    shown = "refined" if config.refined else "negatives"
    if shown not in figures.made:
        raise FileNotFoundError(f"{run} has no {shown}: run negcap refine {run} first")
    corpus = read_corpus_counts(run)
    blindness: dict[str, Blindness] = {}
    if config.blind:
        for table in ("negatives", "refined"):
            if figures.made.get(table):
                order = list(figures.families)
                blindness[table] = measured(run, table, config.limit, config.seed, progress, order, config.splits)
    few = -(-config.n // REFUSED_SHARE)
    only = {"split": config.splits} if config.splits else None
    samples = Samples(
        {name: rows for (name,), rows in draw(run, shown, ["operator"], config.n, config.seed, only=only).items()},
        draw(run, "rejections", ["operator", "reason"], few, config.seed, only=only),
        {
            name: rows
            for (name,), rows in draw(run, "positives", ["operator"], config.n, config.seed, only=only).items()
        },
    )
    facts = [*corpus_lines(run), *component_lines(run), *of_splits(config.splits)]
    provenance = origin(run, shown)
    html = page(figures, blindness, corpus, samples, facts, provenance, shown, config)
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / PAGE, html.encode())
    write_atomically(output / TABLE, parquet(to_table(figures, blindness, corpus), provenance))
    return output / PAGE, output / TABLE


def of_splits(splits: Sequence[str]) -> list[str]:
    """What is shown where that is not everything, as a line."""
    return [f"what follows is of the split {' and '.join(splits)} only"] if splits else []


def origin(run: Path, table: str) -> dict[str, str]:
    """What the shards of a table say of their making; of this package alone where there is no manifest."""
    manifest = read_manifest(run / table)
    return manifest.identity.provenance() if manifest is not None and list_shards(run / table) else package()


def parquet(table: object, metadata: Mapping[str, str]) -> memoryview:
    """The bytes of the table audit as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from negcap.schemas.fields import check

    assert isinstance(table, pa.Table)
    check(table, AUDIT)
    sink = pa.BufferOutputStream()
    pq.write_table(table.cast(AUDIT.with_metadata({**(AUDIT.metadata or {}), **metadata})), sink, **PARQUET)
    return memoryview(sink.getvalue())
