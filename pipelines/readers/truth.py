"""Leave out captions that a column calls false of their image: `is_true` 0 or, of VizWiz, `is_rejected` true.

Such a column is recognised by its name and its values, which are those of TRUE and FALSE. `label` and the like may be a
class of the image as well, so for them the user is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice

from .cells import is_missing, items_of
from .record import Cell, ReadOptions, Record, Rejected, plain_name, reject

SAYS_TRUE = ("is_true", "is_correct", "correct")
SAYS_FALSE = ("is_false", "is_rejected", "is_precanned")  # the last two are VizWiz-Captions'
UNSURE = ("label", "labels", "target", "true", "truth")
NO_COLUMN = "none"
TRUE = ("1", "1.0", "true", "t", "yes", "y")
FALSE = ("0", "0.0", "false", "f", "no", "n")
RULE = "0 or 1, true or false, yes or no"
# Captions whose values decide whether a column is one of truth; a file is read in one pass.
LOOKED_AT = 1000
_MEANING = {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}


@lru_cache(maxsize=64)
def truth_columns(names: tuple[str, ...], wanted: str) -> tuple[str, ...]:
    """The columns that may say whether a caption is true: that which the user names, or those with a usual name.

    Args:
        names: of the columns, without those that are read as something else.
        wanted: ReadOptions.truth_column.
    """
    if wanted == NO_COLUMN:
        return ()
    if wanted:
        return tuple(name for name in names if plain_name(name) == plain_name(wanted))
    certain = tuple(name for name in names if plain_name(name) in SAYS_TRUE + SAYS_FALSE)
    return certain + tuple(name for name in names if plain_name(name) in UNSURE)


def values_of(row: Mapping[str, Cell], options: ReadOptions) -> dict[str, Cell] | None:
    """The values of a row's `truth_columns`, which become Record.truth."""
    return {name: row[name] for name in truth_columns(tuple(row), options.truth_column)} or None


def values_of_items(values: Mapping[str, Cell] | None, count: int) -> list[dict[str, Cell] | None]:
    """What columns say of the truth of each of `count` captions that stand in one cell.

    {"is_true": [1, 0]}, 2 -> [{"is_true": 1}, {"is_true": 0}]. A list of another length, or a single value, says the
    same of all captions.
    """
    if values is None:
        return [None] * count
    truths: list[dict[str, Cell] | None] = []
    for number in range(count):
        truth: dict[str, Cell] = {}
        for name, value in values.items():
            items = items_of(value)
            truth[name] = items[number] if len(items) == count else value
        truths.append(truth)
    return truths


def only_true(records: Iterable[Record | Rejected], options: ReadOptions, where: str) -> Iterator[Record | Rejected]:
    """The records of one file; those that Record.truth calls false, or says nothing clear of, become rejected.

    Which columns say so is decided by their values in the first LOOKED_AT records.

    Raises:
        ValueError: a column may be one of truth or not, or the one that the user names is not there or has other
            values. The message names the file `where`.
    """
    records = iter(records)
    first = list(islice(records, LOOKED_AT))
    truths = [record.truth for record in first if isinstance(record, Record) and record.truth is not None]
    wanted = "" if options.truth_column == NO_COLUMN else options.truth_column
    if wanted and not truths and any(isinstance(record, Record) for record in first):
        raise ValueError(f"{where}: truth column must be in the records, was: {wanted}; none of the first has it")
    columns = {name: plain_name(name) in SAYS_FALSE for name in _recognise_truth_columns(truths, wanted, where)}
    for record in chain(first, records):
        yield checked(record, columns) if columns and isinstance(record, Record) else record


def _recognise_truth_columns(truths: Sequence[Mapping[str, Cell]], wanted: str, where: str) -> list[str]:
    """The columns that say whether a caption is true, recognised by their names and values.

    Args:
        truths: for each of the first records, the values of the columns that may be of truth, by name.
        wanted: the column that the user has named; "": none.
        where: the file, for messages.

    Raises:
        ValueError: a column of truth has other values than yes and no, or it is unsure whether one is of truth.
    """
    # Rows of JSON need not have the same names: all that any of them has, in the order in which they come.
    names = list(dict.fromkeys(chain.from_iterable(truths)))
    values = {name: [truth[name] for truth in truths if not is_missing(truth.get(name))] for name in names}
    # A column that is named, or whose name leaves no doubt, must not be half understood.
    certain = [name for name in names if wanted or plain_name(name) not in UNSURE]
    for name in certain:
        unclear = [value for value in values[name] if _yes_or_no(value) is None]
        some_are_clear = len(unclear) < len(values[name])
        if unclear and (wanted or some_are_clear):
            raise ValueError(
                f"{where}: truth column {name} must be {RULE}, was: {unclear[0]!r:.80}; "
                f"--columns truth={NO_COLUMN} takes all captions as true"
            )
    if wanted:
        return names
    all_clear = [name for name in names if values[name] and None not in map(_yes_or_no, values[name])]
    recognised = [name for name in all_clear if name in certain]
    if recognised or not all_clear:
        return recognised
    unsure = all_clear[0]
    has = " and ".join(sorted({str(value) for value in values[unsure]})[:2])
    raise ValueError(
        f"{where}: the column {unsure}, of {has}, may say whether captions are true of their images, or be a "
        f"class: --columns truth={unsure} takes only the true captions, --columns truth={NO_COLUMN} takes all"
    )


def checked(record: Record, columns: Mapping[str, bool]) -> Record | Rejected:
    """The record, or a Rejected if a column calls its caption false or says nothing clear.

    columns: by the name of a column of truth, whether a yes there marks a false caption (`is_rejected`) or a true one.
    """
    # One column that calls the caption false is enough: VizWiz has two, one for each kind of fault.
    for name, marks_false in columns.items():
        value = (record.truth or {}).get(name)
        if marks_false and is_missing(value):  # an annotation without the mark is not marked
            continue
        meaning = _yes_or_no(value)
        if meaning is None:
            was = "is missing" if is_missing(value) else f"was: {value!r:.80}"
            return reject(record, "no_truth", f"{name} must be {RULE}, {was}")
        if meaning == marks_false:
            return reject(record, "false_caption", f"caption must be true of its image, {name} was: {value!s:.80}")
    return record


def _yes_or_no(value: Cell) -> bool | None:
    """What a cell says, yes or no; None for other values."""
    if isinstance(value, str) and value in _MEANING:  # as in nearly every cell: millions are looked at
        return _MEANING[value]
    return _MEANING.get(str(value).strip().lower()) if isinstance(value, str | int | float) else None
