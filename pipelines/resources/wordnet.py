"""Build WordNet's taxonomy as one Parquet file from WordNet 3.0 (Debian: wordnet-base, wordnet-sense-index).

The same input gives the same bytes.
"""

from __future__ import annotations

import shutil
import tempfile
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import nltk
import pyarrow as pa
import pyarrow.parquet as pq
from nltk.corpus.reader.wordnet import Lemma, Synset, WordNetCorpusReader

from ...schemas.captions import TAXONOMY
from ...schemas.fields import check

PARTS = ("noun", "verb", "adj", "adv")
FILES = (*(f"{kind}.{pos}" for kind in ("data", "index") for pos in PARTS), *(f"{pos}.exc" for pos in PARTS))
FILES += ("cntlist.rev", "index.sense")
POS_ORDER = "nvar"
POS_FILES = dict(zip(POS_ORDER, PARTS, strict=True))
RELATIONS = {
    "hypernyms": "hypernyms",
    "instance_of": "instance_hypernyms",
    "entails": "entailments",
    "causes": "causes",
    "part_of": "part_holonyms",
    "member_of": "member_holonyms",
    "substance_of": "substance_holonyms",
    "similar": "similar_tos",
}


def open_wordnet(source: Path, folder: Path) -> WordNetCorpusReader:
    """Open the WordNet files in the folder `source` with NLTK's reader.

    NLTK can read them only in a folder of its own layout: they are copied to `folder`, an empty one. The file with the
    names of the lexicographer files (lexnames.txt) is added, which Debian's package lacks. Raises FileNotFoundError
    with the first file that `source` lacks.
    """

    class English(WordNetCorpusReader):
        """NLTK's reader without its multilingual tables, which map WordNets of several languages onto each other."""

        def map_wn(self, version: str = "wordnet") -> None:
            """Do nothing, since no other WordNet is read."""

    target = folder / "corpora" / "wordnet"
    target.mkdir(parents=True)
    for name in FILES:
        if not (source / name).is_file():
            package = "WordNet 3.0 is in Debian's wordnet-base and wordnet-sense-index"
            raise FileNotFoundError(f"{source / name}: no such file; {package}")
        shutil.copyfile(source / name, target / name)
    shutil.copyfile(Path(__file__).with_name("lexnames.txt"), target / "lexnames")
    nltk.data.path.insert(0, str(folder))
    # Any object in place of None, for which NLTK would load the multilingual tables.
    return English(str(target), omw_reader=object())


class SynsetKey(NamedTuple):
    """Identifies a synset in WordNet's files: the part of speech of its index (n, v, a, r), and its offset there."""

    pos: str
    offset: int


class SenseKey(NamedTuple):
    """Identifies a sense in the table: the row of its synset, and the text of its lemma."""

    row: int
    lemma: str


class WordNetRows:
    """The synsets of a WordNet and where each stands in the table: ordered by part of speech and WordNet's offsets."""

    def __init__(self, reader: WordNetCorpusReader) -> None:
        """Read all synsets and number them, and their senses, in the order of the table."""
        synsets = [synset for pos in POS_FILES for synset in reader.all_synsets(pos)]
        # Satellite adjectives stand among the adjectives, as in WordNet's files: see `_synset_key`.
        self.synsets = sorted(synsets, key=lambda synset: (POS_ORDER.index(_synset_key(synset).pos), synset.offset()))
        self.row = {_synset_key(synset): row for row, synset in enumerate(self.synsets)}
        self.lemmas = [_distinct_lemmas(synset) for synset in self.synsets]  # of each row
        senses = [SenseKey(row, text) for row, lemmas in enumerate(self.lemmas) for text in lemmas]
        # {SenseKey(row=0, lemma="entity"): 0, ...}: senses are numbered through the whole table.
        self.sense_number = {sense: number for number, sense in enumerate(senses)}

    def rows_of(self, synsets: list[Synset]) -> list[int]:
        """The rows of some synsets, ascending."""
        return sorted(self.row[_synset_key(synset)] for synset in synsets)

    def senses_of(self, lemmas: list[Lemma]) -> list[int]:
        """The numbers of the senses of some lemmas, ascending, each once; senses are numbered through all synsets."""
        numbers = set()
        for lemma in lemmas:
            row_of_synset = self.row[_synset_key(lemma.synset())]
            numbers.add(self.sense_number[SenseKey(row_of_synset, _lemma_text(lemma.name()))])
        return sorted(numbers)


def table(reader: WordNetCorpusReader) -> pa.Table:
    """All synsets as a table, one row per synset, ordered by part of speech (n, v, a, r) and WordNet's offsets."""
    rows = WordNetRows(reader)
    ranks = {pos: _sense_ranks(reader, pos) for pos in POS_FILES}
    irregular = _irregular_forms(reader, ranks, rows)
    records: list[dict[str, object]] = []
    for row, (synset, lemmas) in enumerate(zip(rows.synsets, rows.lemmas, strict=True)):
        rank_of = ranks[_synset_key(synset).pos]
        senses = [
            {
                "lemma": text,
                "rank": rank_of[text, synset.offset()],
                "count": lemma.count(),
                "antonyms": rows.senses_of(lemma.antonyms()),
                "derived": rows.senses_of(lemma.derivationally_related_forms()),
            }
            for text, lemma in lemmas.items()
        ]
        relations = {column: rows.rows_of(getattr(synset, method)()) for column, method in RELATIONS.items()}
        named = {"pos": synset.pos(), "lexname": synset.lexname(), "irregular": irregular.get(row, [])}
        records.append({**named, "senses": senses, **relations})
    return pa.Table.from_pylist(records, TAXONOMY)


def _synset_key(synset: Synset) -> SynsetKey:
    """The key of a synset in WordNet's files."""
    pos = synset.pos()
    # Satellite adjectives are in the index of adjectives.
    return SynsetKey("a" if pos == "s" else pos, synset.offset())


def _lemma_text(name: str) -> str:
    """A lemma as it is looked up: in lower case, with spaces between its words."""
    return name.lower().replace("_", " ")


def _distinct_lemmas(synset: Synset) -> dict[str, Lemma]:
    """The synset's lemmas by their text; of those that differ only in case ("Moon", "moon"), the first."""
    first: dict[str, Lemma] = {}
    for lemma in synset.lemmas():
        first.setdefault(_lemma_text(lemma.name()), lemma)
    return first


# Sense numbers, from 1, by lemma and offset of the synset.
Ranks = dict[tuple[str, int], int]


def _sense_ranks(reader: WordNetCorpusReader, pos: str) -> Ranks:
    """The sense numbers of a part of speech, from its index, which lists the most frequent sense first."""
    ranks: Ranks = {}
    with reader.open(f"index.{POS_FILES[pos]}") as lines:
        for line in lines:
            if line.startswith(" "):  # the licence
                continue
            lemma, _, sense_count, *others = line.split()
            offsets = others[-int(sense_count) :]  # of the synsets; they stand last in the line
            for rank, offset in enumerate(offsets, start=1):
                ranks[_lemma_text(lemma), int(offset)] = rank
    return ranks


def _irregular_forms(
    reader: WordNetCorpusReader, ranks: dict[str, Ranks], rows: WordNetRows
) -> dict[int, list[dict[str, str]]]:
    """The irregular forms of lemmas, such as geese of goose, sorted, by the row of the lemma's first sense.

    The forms are in WordNet's files `noun.exc` and the like. ranks: by part of speech, the rank of each sense of a
    lemma, from 1. rows: the rows of the table that is made.
    """
    # Pairs of a lemma and a form.
    forms: dict[int, set[tuple[str, str]]] = {}
    for pos, ranks_of_pos in ranks.items():
        first_sense = {lemma: offset for (lemma, offset), rank in ranks_of_pos.items() if rank == 1}
        with reader.open(f"{POS_FILES[pos]}.exc") as lines:
            for line in lines:
                form, *lemmas = (_lemma_text(word) for word in line.split())
                for lemma in lemmas:
                    if lemma in first_sense:
                        row = rows.row[SynsetKey(pos, first_sense[lemma])]
                        forms.setdefault(row, set()).add((lemma, form))
    return {row: [{"lemma": lemma, "form": form} for lemma, form in sorted(pairs)] for row, pairs in forms.items()}


def licence(source: Path) -> str:
    """The text of WordNet's licence, from the numbered lines at the start of its files; all copies must include it."""
    with (source / "data.noun").open(encoding="utf-8") as file:
        numbered = takewhile(lambda line: line.startswith("  "), file)
        return "\n".join(line.strip().partition(" ")[2].rstrip() for line in numbered).strip() + "\n"


def build(source: Path, output: Path) -> None:
    """Write the taxonomy of the WordNet in the folder `source` to the Parquet file `output`, its licence beside it.
    Raises FileNotFoundError with the first file that `source` lacks.
    """
    with tempfile.TemporaryDirectory() as folder:
        reader = open_wordnet(source, Path(folder))
        taxonomy = table(reader)
        metadata = {"source": f"WordNet {reader.get_version()}, Princeton University; see WORDNET_LICENSE.txt"}
    check(taxonomy, TAXONOMY)
    taxonomy = taxonomy.replace_schema_metadata({**(taxonomy.schema.metadata or {}), **metadata})
    pq.write_table(
        taxonomy, output, compression="zstd", compression_level=19, row_group_size=1 << 20, write_statistics=False
    )
    (output.parent / "WORDNET_LICENSE.txt").write_text(licence(source), "utf-8")
    print(f"{output}: {taxonomy.num_rows} synsets, {output.stat().st_size} bytes")
