"""The functions of the package negcap."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas.messages import did_you_mean, word
from ..engine.cluster import executor
from ..engine.places import place
from ..engine.progress import report
from ..engine.run import Execution
from ..engine.tables import has_table, read_table
from ..report.rows import Graph, in_words
from ..tables.columns import UNSPLIT, column_filter, splits_of
from ..tables.pairs import with_p_good

if TYPE_CHECKING:
    import pandas as pd

    from .captions import Captions

Setting: TypeAlias = Any  # of a keyword: any value, which the setting's field checks


@overload
def negatives(
    captions: Captions,
    *,
    operators: str | Sequence[str] | None = ...,
    lexicon: str | PathLike[str] = ...,
    rejections: Literal[False] = ...,
    **settings: Setting,
) -> pd.DataFrame: ...


@overload
def negatives(
    captions: Captions,
    *,
    operators: str | Sequence[str] | None = ...,
    lexicon: str | PathLike[str] = ...,
    rejections: Literal[True],
    **settings: Setting,
) -> tuple[pd.DataFrame, pd.DataFrame]: ...


def negatives(
    captions: Captions,
    *,
    operators: str | Sequence[str] | None = None,
    lexicon: str | PathLike[str] = "auto",
    rejections: bool = False,
    **settings: Setting,
) -> pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]:
    """Make negatives of captions in memory: the same rows that `negcap build` writes for this input and settings.

    It is for a whole set of captions: a call with new captions first counts their words, which takes about half a
    second; `lexicon` saves that. `Augmenter` is for many small batches.

    Args:
        captions: a list of sentences, each with an image of its own; or a pandas DataFrame, Arrow table or
            datasets.Dataset with a column of captions and one of images (names, paths or embedded ones with a path).
            Captions of the same image are siblings: what one of them says is never made a negative of another.
        operators: a preset (`vse-c`, `benchmark`, `all` …), an operator's name, or several names; None: `vse-c`.
        lexicon: where replacements and their weights come from: `own`, counted from these captions; `reference`,
            shipped with negcap; or the folder of a run. `auto`: the counts of your captions plus those of the
            reference lexicon, which weigh as much as 5,000 captions, or less if yours are far from everyday photos.
            With min_count, min_concreteness, concreteness or attributes, `auto` is the same as `own`.
        rejections: whether to return the rejected candidates too, each with its `reason`.
        settings: other options of `negcap build`, as keywords: seed, per_family, max_true, min_count, image_column,
            caption_column, truth_column, keep_columns, spacy_model, cloze, max_unnatural, limit, strict … (`negcap
            build --help` says what each means). `preset` may be given instead of `operators`.

    Returns:
        A DataFrame with the columns of the table `negatives` and `p_good` (see `read`), one row per negative; with
        `rejections`, a pair of DataFrames, (negatives, rejections). Warns if there are no negatives, with the reason.
        The image_id of a sentence of a list, or of a row without an image's name, is its position from 0. To join rows
        of a DataFrame to the result, name the columns that identify them: `negatives(frame.reset_index(),
        keep_columns=["index"])` has the column `index`, too.

    Raises:
        ValueError: a setting has an invalid value, or no caption can be used.
        TypeError: there is no such setting, or `captions` is of another type.

    Examples:
        >>> frame = negatives(["Two dogs run on the beach.", "A man rides a red bicycle."], seed=1)
        >>> set(frame["operator"]) <= {"noun", "numeral", "shuffle", "preposition"}
        True
    """
    from ..report.summary import explain_no_negatives
    from ..stages import build as verbs
    from .captions import captions_as_arrow_table, captions_table

    options = {**_options_of_build(operators, settings), "lexicon": lexicon}
    verbs.check_options(options)
    config = verbs.configure("ingest", options)
    table, columns = captions_table(captions_as_arrow_table(captions, config), config)
    tables = verbs.make_in_memory(table, options)
    accepted = _join_source_columns(with_p_good(tables["negatives"]).to_pandas(), columns)
    rejected = _join_source_columns(tables["rejections"].to_pandas(), columns)
    if accepted.empty and not tables["positives"].num_rows:
        entries = len(set(tables["lexicon"]["entry"].to_pylist()))
        reasons = Counter(tables["rejections"]["reason"].to_pylist())
        asked = verbs.configure("negatives", options).operators
        warnings.warn(explain_no_negatives(tables["parses"], entries, reasons, asked), stacklevel=2)
    return (accepted, rejected) if rejections else accepted


def _join_source_columns(frame: pd.DataFrame, columns: pa.Table) -> pd.DataFrame:
    """Join rows with the columns of the source that the user keeps, by the column caption_id.

    columns: the table of caption_id, image_id and the columns to keep.
    """
    names = columns.column_names[2:]  # without caption_id and image_id
    if not names:
        return frame
    kept = columns.select(["caption_id", *names]).to_pandas()
    return frame.merge(kept, "left", "caption_id", suffixes=("", "_source"))


def _options_of_build(operators: str | Sequence[str] | None, settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The options of a build, from the keywords of a function. Raises ValueError if operators and preset are given."""
    options = dict(settings)
    for name in ("keep_columns", "caption_column"):
        given = options.get(name)
        if isinstance(given, str):
            options[name] = (given,)  # as a text, a name with a comma would be read as two names
        elif isinstance(given, list):
            options[name] = tuple(given)
    if options.get("preset") is None:
        options["operators"] = operator_names("vse-c" if operators is None else operators)
    elif operators is not None:
        raise ValueError("preset and operators exclude each other: give one of them")
    return options


def operator_names(operators: str | Sequence[str]) -> tuple[str, ...]:
    """The operators of a preset, or the operators named. Raises ValueError for an unknown name."""
    from ...augment.operators import LISTED, OPERATORS, PRESETS, operator_named

    if not isinstance(operators, str):
        return tuple(name for name in operators if operator_named(name))
    if operators in PRESETS:
        return PRESETS[operators]
    if operators in OPERATORS:
        return (operators,)
    known = f"a preset ({', '.join(PRESETS)}) or operators ({', '.join(LISTED)})"
    similar = did_you_mean(operators, [*PRESETS, *OPERATORS])
    raise ValueError(f"operators must be {known}, was: {operators}{similar}")


def build(
    captions: str | PathLike[str] | Captions,
    output: str | PathLike[str],
    *,
    operators: str | Sequence[str] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **settings: Setting,
) -> Path:
    """Make a whole run as `negcap build` does: its captions, their parses, and their negatives, as Parquet tables.

    It also makes the tables of counts by which replacements are chosen: lexicon (which words captions use, and where),
    truth (what is true although no caption says so) and balance (weights, so that no word is typical of negatives).

    Args:
        captions: a file, folder or URL in any format that `negcap build` reads, or captions in memory as `negatives`
            takes them.
        output: the folder of the run, on a local disk or on a store (`s3://bucket/run` …). Tables that are already
            there and up to date are kept.
        operators: an operator, several, or a preset such as `benchmark`; None: those of `vse-c`.
        workers: number of worker processes; None: one per core. A script that starts workers must guard its entry
            point with `if __name__ == "__main__"`.
        scheduler: a Dask scheduler (`tcp://host:port`, a scheduler file, or `module:function` that returns a cluster),
            or `synchronous` to run in this process; None: local worker processes.
        overwrite: whether to replace tables that were made with other settings or input; if not, they are an error.
        progress: whether to show progress on stderr.
        settings: those of `negatives`, by name, such as `per_family=4` or `seed=1`.

    Returns:
        The folder of the run.

    Raises:
        ValueError: a setting has an invalid value, or the captions cannot be read.
        FileNotFoundError: the file or folder of captions does not exist.
        EngineError: a stage failed; the message says why in one line.

    Examples:
        >>> from negcap.pipelines.sample import path
        >>> run = build(path(), tmp / "run", limit=20, scheduler="synchronous")
        >>> sorted(table.name for table in run.iterdir() if table.is_dir() and not table.name.startswith("_"))[:3]
        ['balance', 'captions', 'excluded']
    """
    from ..stages import build as verbs
    from .captions import NAME, captions_as_arrow_table

    run = place(output, "output")
    options = _options_of_build(operators, settings)
    verbs.check_options(options)
    with TemporaryDirectory() as folder:
        # Captions in memory become a file, so that worker processes read it as they read any other.
        if isinstance(captions, (str, PathLike)):
            source = str(captions)
        else:
            source = str(Path(folder) / f"{NAME}.parquet")
            pq.write_table(captions_as_arrow_table(captions, verbs.configure("ingest", options)), source)
        with closing(executor(workers, scheduler)) as started:
            _, notes = verbs.build(source, run, options, Execution(started, report(not progress), overwrite))
    for warning in notes:
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
    """Read a table of a run, optionally only the rows of some operators or splits.

    `negatives` and `refined` get one more column, `p_good`: the estimated probability that a negative is sensible and
    false, by which `negcap refine` chooses. Values of different operators can be compared.

    Args:
        run: the folder of the run, on a local disk or on a store.
        table: `negatives`, `refined` (those that `negcap refine` kept), `positives` (paraphrases, true denials),
            `rejections` (refused candidates), `captions`, `parses`, `lexicon`, `components` …: `negcap info RUN` lists
            those of a run, and the reference of the tables describes them.
        operator: an operator or several; None: rows of all operators.
        split: a split or several, `unsplit` for captions without one; None: rows of all splits.
        columns: the columns to return; None: all.

    Raises:
        FileNotFoundError: the run has no such table.
        ValueError: the table has no such column, or there is no such operator or split.
        DamagedShardError: a shard cannot be read.

    Examples:
        >>> frame = read(run, "negatives", operator="noun", columns=["caption", "text"])
        >>> list(frame.columns)
        ['caption', 'text']
    """
    from ...augment.operators import LISTED, UNCHECKED
    from ...augment.recovery import FAMILIES_OF

    folder = place(run, "run")
    chosen: dict[str, list[str]] = {}  # the values of these columns that are asked for
    for name, given in (("operator", operator), ("split", split)):
        if given:
            chosen[name] = [given] if isinstance(given, str) else list(given)
    # Shard by shard, so that only the rows that are asked for are in memory together.
    shards = []
    values_in_table = {name: set[str]() for name in chosen}
    for shard in read_table(folder, table):
        shard = with_p_good(shard)
        missing = [name for name in (*chosen, *(columns or ())) if name not in shard.column_names]
        if missing:
            names = shard.column_names
            similar = did_you_mean(missing[0], names)
            raise ValueError(f"{table} must have the column {missing[0]}, has: {', '.join(names)}{similar}")
        for name in chosen:
            values_in_table[name].update(shard[name].unique().to_pylist())
        shard = shard.filter(column_filter(chosen))
        shards.append(shard if columns is None else shard.select(list(columns)))
    for name, values in chosen.items():
        if values_in_table[name].issuperset(values):
            continue
        # A value that no row has is an error unless it could have been there: an operator that made nothing, or a split
        # of captions without negatives.
        known: Iterable[str] = [*LISTED, *FAMILIES_OF]
        if name == "split":
            known = splits_of(folder) if has_table(folder, "captions") else ()
        listed = dict.fromkeys([*known, *(value or UNSPLIT for value in sorted(values_in_table[name]))])
        for value in values:
            word(name, value, listed, UNCHECKED if name == "operator" else ())
    return pa.concat_tables(shards).to_pandas()


def graph(sentence: str, *, simple: bool = False, spacy_model: str | None = None) -> Graph:
    """The scene graph of a sentence: objects, (attribute, object) pairs, (subject, relation, object) triples.

    Args:
        sentence: one English sentence.
        simple: whether to simplify as UniVSE does in training: one-word names, only the first attribute of an object.
        spacy_model: an installed spaCy pipeline or its folder; None: the shipped parser.

    Raises:
        TypeError: the sentence is no str.

    Examples:
        >>> graph("A man in front of a red car wears a hat").relations
        (('man', 'in front of', 'car'), ('man', 'wear', 'hat'))
    """
    from ...augment.language.parse import parse
    from ...augment.scene_graph import scene_graph

    if not isinstance(sentence, str):
        raise TypeError(f"sentence must be a str, was: {type(sentence).__name__}")
    return in_words(scene_graph(parse([" ".join(sentence.split())], spacy_model)[0], simple))
