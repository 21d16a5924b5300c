"""Build WordNet's taxonomy as one Parquet file from WordNet 3.0 (Debian: wordnet-base, wordnet-sense-index).

The same input gives the same bytes.
"""

from __future__ import annotations

import shutil
import tempfile
from itertools import takewhile
from pathlib import Path
from typing import Any

import nltk
import pyarrow as pa
import pyarrow.parquet as pq
from nltk.corpus.reader.wordnet import Lemma, Synset, WordNetCorpusReader

from ...schemas.captions import TAXONOMY
from ...schemas.fields import check

PARTS = ("noun", "verb", "adj", "adv")
FILES = (*(f"{kind}.{pos}" for kind in ("data", "index") for pos in PARTS), *(f"{pos}.exc" for pos in PARTS))
FILES += ("cntlist.rev", "index.sense")
POS_FILES = dict(zip("nvar", PARTS, strict=True))
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
    """Open the WordNet files in the folder `source` with NLTK's reader. folder: an empty folder; the files are copied
    to `folder`/corpora, where NLTK can read them, with that of the lexicographer files' names (lexnames.txt), which
    Debian's package lacks. Raises FileNotFoundError with the first file that `source` lacks.
    """

    class English(WordNetCorpusReader):
        """NLTK's reader without its multilingual tables, which map WordNets of several languages onto each other."""

        def map_wn(self, version: str = "wordnet") -> None:
            """Do nothing, since no other WordNet is read."""

    target = folder / "corpora" / "wordnet"
    target.mkdir(parents=True)
    for name in FILES:
        if not (source / name).is_file():
            where = "WordNet 3.0 is in Debian's wordnet-base and wordnet-sense-index"
            raise FileNotFoundError(f"{source / name}: no such file; {where}")
        shutil.copyfile(source / name, target / name)
    shutil.copyfile(Path(__file__).with_name("lexnames.txt"), target / "lexnames")
    nltk.data.path.insert(0, str(folder))
    return English(str(target), omw_reader=object())  # anything but None, which would load the multilingual tables


def table(reader: WordNetCorpusReader) -> pa.Table:
    """All synsets as a table, one row per synset, ordered by part of speech (n, v, a, r) and WordNet's offsets."""
    every = {synset for pos in POS_FILES for synset in reader.all_synsets(pos)}
    synsets = sorted(every, key=lambda one: ("nvar".index(_search_pos(one.pos())), one.offset()))
    rows = {(_search_pos(synset.pos()), synset.offset()): row for row, synset in enumerate(synsets)}
    ranks = {pos: _ranks(reader, pos) for pos in POS_FILES}
    senses = [_lemmas(synset) for synset in synsets]
    in_order = [(row, text) for row, lemmas in enumerate(senses) for text, _ in lemmas]
    flat = {sense: number for number, sense in enumerate(in_order)}

    def targets(related: list[Synset]) -> list[int]:
        return sorted(rows[_search_pos(synset.pos()), synset.offset()] for synset in related)

    def sense_targets(related: list[Lemma]) -> list[int]:
        return sorted({flat[targets([lemma.synset()])[0], _text(lemma.name())] for lemma in related})

    irregular = _irregular(reader, ranks, rows)
    records = []
    for row, (synset, lemmas) in enumerate(zip(synsets, senses, strict=True)):
        ranked = ranks[_search_pos(synset.pos())]
        record: dict[str, Any] = {"pos": synset.pos(), "lexname": synset.lexname(), "irregular": irregular.get(row, [])}
        record["senses"] = [
            {
                "lemma": text,
                "rank": ranked[text, synset.offset()],
                "count": lemma.count(),
                "antonyms": sense_targets(lemma.antonyms()),
                "derived": sense_targets(lemma.derivationally_related_forms()),
            }
            for text, lemma in lemmas
        ]
        records.append(record | {column: targets(getattr(synset, method)()) for column, method in RELATIONS.items()})
    return pa.Table.from_pylist(records, TAXONOMY)


def _search_pos(pos: str) -> str:
    """The part of speech used in WordNet's index: "a" for satellite adjectives ("s"), else `pos` itself."""
    return "a" if pos == "s" else pos


def _text(name: str) -> str:
    """A lemma as it is looked up: in lower case, with spaces between its words."""
    return name.lower().replace("_", " ")


def _lemmas(synset: Synset) -> list[tuple[str, Lemma]]:
    """(text, lemma) of the synset's lemmas; of those that differ only in case ("Moon", "moon"), the first."""
    first: dict[str, Lemma] = {}
    for lemma in synset.lemmas():
        first.setdefault(_text(lemma.name()), lemma)
    return list(first.items())


def _ranks(reader: WordNetCorpusReader, pos: str) -> dict[tuple[str, int], int]:
    """Sense numbers (from 1) by (lemma, synset offset), from the index, which lists the most frequent sense first."""
    ranks = {}
    with reader.open(f"index.{POS_FILES[pos]}") as lines:
        for line in lines:
            if not line.startswith(" "):
                fields = line.split()
                for rank, offset in enumerate(fields[-int(fields[2]) :], start=1):
                    ranks[_text(fields[0]), int(offset)] = rank
    return ranks


def _irregular(
    reader: WordNetCorpusReader, ranks: dict[str, dict[tuple[str, int], int]], rows: dict[tuple[str, int], int]
) -> dict[int, list[dict[str, str]]]:
    """Irregular forms ("geese") of the lemmas, by the row of the lemma's first sense, sorted."""
    forms: dict[int, set[tuple[str, str]]] = {}
    for pos, ranked in ranks.items():
        first = {lemma: offset for (lemma, offset), rank in ranked.items() if rank == 1}
        with reader.open(f"{POS_FILES[pos]}.exc") as lines:
            for line in lines:
                form, *lemmas = (_text(word) for word in line.split())
                for lemma in lemmas:
                    if lemma in first:
                        forms.setdefault(rows[pos, first[lemma]], set()).add((lemma, form))
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
    stored = {"compression": "zstd", "compression_level": 19, "row_group_size": 1 << 20, "write_statistics": False}
    pq.write_table(taxonomy, output, **stored)
    (output.parent / "WORDNET_LICENSE.txt").write_text(licence(source), "utf-8")
    print(f"{output}: {taxonomy.num_rows} synsets, {output.stat().st_size} bytes")
