"""Read captions for training the cloze model: tokens, vocabulary, and captions as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from negcap.augment.cloze.units import SPECIAL, Units, by_first_word, joined, normalised

MAX_UNITS = 40  # longer captions are cut into pieces of this length


def read_captions(sources: Iterable[str]) -> list[str]:
    """The distinct captions of some sources in any format that `negcap build` reads, in the order of the sources.

    Raises ValueError or FileNotFoundError as `negcap.pipelines.readers.read`.
    """
    from negcap.pipelines import readers

    texts: dict[str, None] = {}
    for source in sources:
        options = readers.ReadOptions()
        for record in readers.read(source, readers.detect(source), options):
            if not isinstance(record, readers.Rejected):
                texts.setdefault(record.text)
    return list(texts)


def tokenised(texts: Sequence[str]) -> Iterator[list[str]]:
    """The normalised words of each caption, as the embedded parser splits it."""
    from negcap.augment.language.parse import load_parser

    tokenizer = load_parser().tokenizer
    for text in texts:
        yield [normalised(token.text) for token in tokenizer(text) if not token.is_space]


def phrases() -> list[str]:
    """The phrases that are read as one unit: prepositions of several words, and compounds of the reference lexicon."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from negcap.augment.data import data_path
    from negcap.augment.language.prepositions import prepositions

    table = pq.read_table(data_path("reference_lexicon") / "lexicon.parquet")
    surfaces = table.filter(pc.equal(table["kind"], "surface"))
    nouns = set(table.filter(pc.equal(table["kind"], "noun"))["entry"].to_pylist())
    compounds = {
        place.partition(":")[2]
        for entry, place in zip(surfaces["entry"].to_pylist(), surfaces["place"].to_pylist(), strict=True)
        if entry in nouns and " " in entry and place.startswith(("nn:", "nns:"))
    }
    several = {entry for entry in prepositions().entries if " " in entry}
    return sorted(several | {name for name in compounds if " " in name})


def vocabulary(captions: Iterable[Sequence[str]], phrases: Iterable[str], min_count: int) -> tuple[Units, np.ndarray]:
    """The units that occur at least `min_count` times, most frequent first, and their counts, (units,).

    The count of UNKNOWN is that of all rarer words together; START and END have the number of captions.
    """
    first, counter, total = by_first_word(phrases), Counter[str](), 0
    for words in captions:
        counter.update(" ".join(unit) for unit in joined(words, first) if unit)
        total += 1
    kept = sorted((name for name, n in counter.items() if n >= min_count), key=lambda name: (-counter[name], name))
    rest = sum(counter.values()) - sum(counter[name] for name in kept)
    counts = np.array([total, total, rest, *(counter[name] for name in kept)])
    return Units((*SPECIAL, *kept)), counts


def encode(captions: Iterable[Sequence[str]], units: Units) -> list[np.ndarray]:
    """Each caption as the numbers of its units, with START and END: int32; captions without a word are left out."""
    encoded = []
    for words in captions:
        numbers, _ = units.read(words)
        for start in range(1, len(numbers) - 1, MAX_UNITS):
            piece = numbers[start : min(start + MAX_UNITS, len(numbers) - 1)]
            encoded.append(np.array([0, *piece, 1], np.int32))
    return encoded


def write_lines(path: Path, texts: Iterable[str]) -> None:
    """Write one caption per line."""
    path.write_text("".join(text.replace("\n", " ") + "\n" for text in texts), encoding="utf-8")
