"""The functions of the package negcap; see its docstring."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

if TYPE_CHECKING:
    import pandas as pd

    from negcap._captions import Captions


@overload
def negatives(
    captions: Captions,
    *,
    operators: str | Sequence[str] = ...,
    lexicon: str | PathLike[str] = ...,
    rejections: Literal[False] = ...,
    **settings: Any,
) -> pd.DataFrame: ...


@overload
def negatives(
    captions: Captions,
    *,
    operators: str | Sequence[str] = ...,
    lexicon: str | PathLike[str] = ...,
    rejections: Literal[True],
    **settings: Any,
) -> tuple[pd.DataFrame, pd.DataFrame]: ...


def negatives(
    captions: Captions,
    *,
    operators: str | Sequence[str] = "vse-c",
    lexicon: str | PathLike[str] = "auto",
    rejections: bool = False,
    **settings: Any,
) -> pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]:
    """The negative captions of captions in memory: the rows that `negcap build` writes for the same input and settings.

    Args:
        captions: a list of sentences (each of an image of its own), or a pandas DataFrame, Arrow table or
            datasets.Dataset with a column of images and one of captions; captions of the same image are siblings, and
            what one of them says is never made a negative of another.
        operators: a preset (`vse-c`, `univse`, `all`), an operator's name, or several names.
        lexicon: where replacements and their weights come from: `own` counts of these captions, the `reference` that
            is shipped, or the folder of a run; `auto` is `own`, but `reference` for fewer than 5,000 captions.
        rejections: also return the candidates that were refused, each with its `reason`.
        settings: other flags of `negcap build`, by name: seed, per_family, max_true, min_count, image_column,
            caption_column, split_column, spacy_model, limit, strict …

    Returns:
        A DataFrame with the columns of the table `negatives`; with `rejections`, a pair of DataFrames.

    Raises:
        ValueError: a setting breaks its rule.
        TypeError: there is no such setting.

    Examples:
        >>> frame = negatives(["Two dogs run on the beach.", "A man rides a red bicycle."], seed=1)
        >>> set(frame["operator"]) <= {"noun", "numeral", "shuffle", "preposition"}
        True
    """
    from negcap._captions import captions_table
    from negcap.pipelines.stages import build as verbs

    options = {**settings, "lexicon": lexicon, "operators": operator_names(operators)}
    verbs.check_options(options)
    made = verbs.make_in_memory(captions_table(captions, verbs.configure("ingest", options)), options)
    frame = made["negatives"].to_pandas()
    if frame.empty:
        warnings.warn(verbs.why_none(made), stacklevel=2)
    return (frame, made["rejections"].to_pandas()) if rejections else frame


def operator_names(operators: str | Sequence[str]) -> tuple[str, ...]:
    """The operators of a preset, or the named ones. Raises ValueError for any other name."""
    from negcap.augment.operators import OPERATORS, PRESETS, operator

    if not isinstance(operators, str):
        return tuple(name for name in operators if operator(name))
    if operators in PRESETS:
        return PRESETS[operators]
    if operators in OPERATORS:
        return (operators,)
    raise ValueError(
        f"operators must be a preset ({', '.join(PRESETS)}) or operators ({', '.join(OPERATORS)}), was: {operators}"
    )


def build(
    captions: str | PathLike[str] | Captions,
    output: str | PathLike[str],
    *,
    operators: str | Sequence[str] = "vse-c",
    workers: int | None = None,
    scheduler: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Path:
    """Make a whole run, as `negcap build` does: captions, parses, lexicon, truth, balance, negatives, as Parquet.

    Args:
        captions: a file, folder or URL in any format that `negcap ingest` reads, or captions in memory as `negatives`
            takes them.
        output: the folder of the run; what is done there already is kept.
        operators: as `negatives`.
        workers: worker processes; one a core where it is None. A script that starts workers must guard its entry point
            with `if __name__ == "__main__"`.
        scheduler: a Dask scheduler `tcp://host:port`, or `synchronous` for this process alone.
        overwrite: replace tables made with another config or input.
        progress: show progress on stderr.
        settings: as `negatives`.

    Returns:
        The folder.

    Raises:
        ValueError: a setting breaks its rule, or the captions cannot be read.
        FileNotFoundError: there is no such file.
        EngineError: the run could not go on; the message says why in one line.

    Examples:
        >>> from negcap.pipelines.sample import path
        >>> run = build(path(), tmp / "run", limit=20, scheduler="synchronous")
        >>> sorted(table.name for table in run.iterdir() if table.is_dir() and not table.name.startswith("_"))[:3]
        ['balance', 'captions', 'lexicon']
    """
    from tempfile import TemporaryDirectory

    import pyarrow.parquet as pq

    from negcap._captions import NAME, arrow_table
    from negcap.pipelines.engine.cluster import executor
    from negcap.pipelines.engine.progress import report
    from negcap.pipelines.stages import build as verbs

    run = Path(output)
    options = {**settings, "operators": operator_names(operators)}
    verbs.check_options(options)
    with TemporaryDirectory() as folder:
        if isinstance(captions, (str, PathLike)):
            source = str(captions)
        else:
            source = str(Path(folder) / f"{NAME}.parquet")
            pq.write_table(arrow_table(captions), source)
        workers_of_run = executor(workers, scheduler)
        try:
            told = verbs.build(source, run, options, workers_of_run, report(not progress), overwrite)
        finally:
            workers_of_run.close()
    for warning in told:
        warnings.warn(warning, stacklevel=2)
    return run


def read(
    run: str | PathLike[str],
    table: str = "negatives",
    *,
    operator: str | Sequence[str] | None = None,
    split: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """A table of a run, or the rows of it that some operators made or that are of some splits.

    Args:
        run: the folder of the run.
        table: the name of the table.
        operator: an operator or several; rows of any where it is None.
        split: a split or several, likewise.
        columns: the columns to read; all where it is None.

    Raises:
        FileNotFoundError: the run has no such table.
        ValueError: the table has no such column.
        DamagedShardError: a shard cannot be read.

    Examples:
        >>> frame = read(run, "negatives", operator="noun", columns=["caption", "text"])
        >>> list(frame.columns)
        ['caption', 'text']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from negcap.pipelines.engine.shards import read_table

    wanted = {"operator": operator, "split": split}
    chosen = {name: [value] if isinstance(value, str) else list(value) for name, value in wanted.items() if value}
    parts = []
    for part in read_table(Path(run), table):
        missing = [name for name in (*chosen, *(columns or ())) if name not in part.column_names]
        if missing:
            raise ValueError(f"{table} must have the column {missing[0]}, has: {', '.join(part.column_names)}")
        for name, values in chosen.items():
            part = part.filter(pc.is_in(part[name], value_set=pa.array(values)))
        parts.append(part if columns is None else part.select(list(columns)))
    return pa.concat_tables(parts).to_pandas()


class Graph(NamedTuple):
    """A scene graph in words. An object that shares its name with an earlier one is numbered: `man`, `man (2)`."""

    objects: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    relations: tuple[tuple[str, str, str], ...]


def graph(sentence: str, *, simple: bool = False, spacy_model: str | None = None) -> Graph:
    """The scene graph of a sentence: objects, (attribute, object) pairs, (subject, relation, object) triples.

    Args:
        sentence: one English sentence.
        simple: UniVSE's simplification for training: one-word names, an object's first attribute only.
        spacy_model: an installed spaCy pipeline or its folder, instead of the parser that is shipped.

    Examples:
        >>> graph("A man in front of a red car wears a hat").relations
        (('man', 'in front of', 'car'), ('man', 'wear', 'hat'))
    """
    from negcap.augment.language.parse import parse
    from negcap.augment.scene_graph import scene_graph
    from negcap.pipelines.report.graph import named

    found = scene_graph(parse([" ".join(sentence.split())], spacy_model)[0], simple)
    names = named(found)
    return Graph(
        tuple(names.values()),
        tuple((a.value, names[a.object]) for a in found.attributes),
        tuple((names[r.subject], r.name, names[r.object]) for r in found.relations),
    )
