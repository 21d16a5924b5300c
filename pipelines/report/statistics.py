"""One page about the work of a run: captions per second and core, refusals, memory, retries, the slowest shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from ..engine.progress import STATISTICS, Measured, measured_stages, read_statistics
from ..engine.storage import write_atomically
from .info import size

PAGE = "README.md"
SLOWEST = 5
REASONS = 6


def write_page(run: Path) -> Path | None:
    """Write `RUN/_statistics/README.md`, a page on the speed of a run's stages, and return its path; None if nothing
    was measured.
    """
    stages = {name: lines for name in measured_stages(run) if (lines := read_statistics(run, name))}
    if not stages:
        return None
    path = run / STATISTICS / PAGE
    write_atomically(path, page(run.name, stages).encode())
    return path


def page(name: str, stages: Mapping[str, Sequence[Measured]]) -> str:
    """The page on the speed of a run's stages, in Markdown. name: of the run; stages: what each shard took."""
    rows: list[Sequence[str]] = []
    for stage, lines in stages.items():
        seconds, captions = sum(line.seconds for line in lines), sum(line.captions for line in lines)
        memory = [line.memory for line in lines]
        speed = f"{captions / seconds:,.0f}" if seconds else "–"
        workers, retries = len({line.worker for line in lines}), sum(line.retries for line in lines)
        taken = f"{captions:,}", f"{seconds / 3600:,.2f}", speed, f"{workers:,}"
        rows.append((stage, f"{len(lines):,}", *taken, size(int(median(memory))), size(max(memory)), f"{retries:,}"))
    head = "stage|shards|captions|core hours|captions/s/core|workers|memory, median|largest|retries"
    parts = [f"# Work on {name}\n", _table(head.split("|"), rows)]
    for stage, lines in stages.items():
        parts.append(f"## {stage}\n")
        refused = sum((Counter(line.refused) for line in lines), Counter())
        if refused:
            shown = ", ".join(f"{reason} {count:,}" for reason, count in refused.most_common(REASONS))
            parts.append(f"Rejected: {refused.total():,} candidates: {shown}\n")
        rows = []
        for line in sorted(lines, key=lambda line: -line.seconds)[:SLOWEST]:
            times = f"{line.captions:,}", f"{line.seconds:.1f}", f"{line.cpu:.1f}"
            rows.append((f"part-{line.shard:05d}", *times, size(line.memory), str(line.retries), line.worker))
        parts.append(_table(("slowest", "captions", "seconds", "of CPU", "memory", "retries", "worker"), rows))
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
