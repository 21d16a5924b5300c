"""Small stages for the engine's tests: importable by workers, and able to misbehave on demand.

Environment variables reach the workers: TOY_SECONDS slows every shard down, TOY_KILL names a file whose absence makes
the first shard that looks for it create it and kill its worker, TOY_DEADLY makes one caption kill every worker.
"""

import os
import signal
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from negcap.augment.settings import Settings
from negcap.pipelines.engine.cluster import Executor, executor
from negcap.pipelines.engine.errors import EngineError
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.run import Execution, run_stage
from negcap.pipelines.engine.shards import list_shards
from negcap.pipelines.engine.stage import ReduceStage, Spread, Stage, StageResult
from negcap.pipelines.engine.tables import WholeTable
from negcap.schemas.captions import CAPTIONS
from negcap.schemas.fields import int64, schema, text
from tests.runs import caption_row
from tests.tables import content, write_table

KEY = text("key into captions")
WORDS = schema("words", 1, caption_id=KEY, word=text("a word"), rank=int64("how often the corpus has it"))
SHORT = schema("short", 1, caption_id=KEY)
COUNTS = schema("counts", 1, word=text("a word"), count=int64("how often"))

TEXTS = [f"a dog chases {i} birds {'near' if i % 3 else 'over'} the pond" if i % 5 else f"cats {i}" for i in range(97)]


DRIVER = [sys.executable, "-m", "tests.pipelines.engine.toy_stages"]  # run_toys in a process of its own, see below


def tree(run: Path) -> dict[str, bytes]:
    """Every file of a run but its captions, by name."""
    return {name: data for name, data in content(run).items() if not name.startswith("captions/")}


class ToyConfig(Settings):
    upper: bool = False
    seed: int = 0


DEFAULTS = ToyConfig()


def split_words(captions: pa.Table, config: ToyConfig, counts: WholeTable) -> StageResult:
    """One row a word; short captions apart."""
    ranks = dict(zip(*(column.to_pylist() for column in counts.read().columns), strict=True))
    _misbehave(captions["text"].to_pylist())
    rows, short = [], []
    for caption_id, line in zip(captions["caption_id"].to_pylist(), captions["text"].to_pylist(), strict=True):
        words = line.split()
        if len(words) < 3:
            short.append({"caption_id": caption_id})
        for word in words:
            shown = word.upper() if config.upper else word
            rows.append({"caption_id": caption_id, "word": shown, "rank": ranks[word]})
    tables = {"short": pa.Table.from_pylist(short, SHORT), "words": pa.Table.from_pylist(rows, WORDS)}
    return StageResult(tables, {"captions": captions.num_rows, "words": len(rows)})


def _misbehave(texts: list[str]) -> None:
    time.sleep(float(os.environ.get("TOY_SECONDS", 0)))
    once = os.environ.get("TOY_KILL")
    if once and not Path(once).exists():
        Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("TOY_DEADLY", "never") in texts:
        os.kill(os.getpid(), signal.SIGKILL)
    if "refuse me" in texts:
        raise ValueError("word must be welcome, was: refuse\nand more lines")


def count_words(captions: pa.Table, config: ToyConfig) -> pa.Table:
    counted = Counter(word for text in captions["text"].to_pylist() for word in text.split())
    return pa.table({"word": list(counted), "count": list(counted.values())}, schema=COUNTS)


def add_counts(tables: list[pa.Table], config: object) -> pa.Table:
    summed = pa.concat_tables(tables).group_by("word", use_threads=False).aggregate([("count", "sum")])
    return summed.rename_columns(["word", "count"])


def keep_counts(counts: pa.Table, config: ToyConfig, spread: Spread) -> StageResult:
    halves = [[counts.slice(0, len(counts) // 2)], [counts.slice(len(counts) // 2)]]
    table = pa.concat_tables(spread(keep_words, halves)).sort_by("word").cast(COUNTS).combine_chunks()
    return StageResult({"counts": table}, {"captions": 0, "words": pc.sum(table["count"]).as_py()})


def keep_words(counts: pa.Table, config: ToyConfig) -> pa.Table:
    """All of them; "uncountable" breaks it."""
    if "uncountable" in counts["word"].to_pylist():
        raise ValueError("word must be countable, was: uncountable")
    return counts


SPLIT = Stage("split", "captions", {"short": SHORT, "words": WORDS}, split_words, whole=("counts",))
COUNT = ReduceStage(
    "count", "captions", {"counts": COUNTS}, count_words, add_counts, keep_counts, ("text",), spreads=True
)


def write_captions(run: Path, texts: list[str], shard_size: int) -> Path:
    """A finished captions table with so many captions a shard, each of an image of its own, in place of another."""
    for shard in list_shards(run / "captions"):
        shard.unlink()
    rows = [caption_row(text, str(number)) for number, text in enumerate(texts)]
    for index, start in enumerate(range(0, len(rows), shard_size)):
        write_table(run, "captions", pa.Table.from_pylist(rows[start : start + shard_size], CAPTIONS), index)
    return run


def run_toys(
    run: Path, config: ToyConfig = DEFAULTS, *, pool: Executor | None = None, overwrite: bool = False, **options: Any
) -> dict[str, int]:
    """Both toy stages over run/captions, in this process, by a pool that is left open, or by one with the options of
    `executor`; the counters of the last.
    """
    own = executor(**options) if options else Executor()
    with closing(own):
        for stage in (COUNT, SPLIT):
            execution = Execution(pool or own, Progress(), overwrite)
            counts = run_stage(stage, run, config, execution, metadata={"made_by": "tests"})
        return counts


if __name__ == "__main__":
    from tests.pipelines.engine import toy_stages  # its functions by the name that workers import

    try:
        toy_stages.run_toys(Path(sys.argv[1]), workers=2, scheduler=next(iter(sys.argv[2:]), None))
    except EngineError as error:
        sys.exit(str(error))
