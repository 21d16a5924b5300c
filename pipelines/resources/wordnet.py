"""Build augment/data/wordnet.parquet from an installed WordNet 3.0 (Debian: wordnet-base, wordnet-sense-index).

Run as `python -m negcap.pipelines.resources.wordnet --output augment/data/wordnet.parquet`; the same input gives the
same bytes.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schemas.captions import TAXONOMY

if TYPE_CHECKING:
    import pyarrow as pa
    from nltk.corpus.reader.wordnet import Lemma, Synset, WordNetCorpusReader

FILES = (
    *(f"{kind}.{pos}" for kind in ("data", "index") for pos in ("noun", "verb", "adj", "adv")),
    *(f"{pos}.exc" for pos in ("noun", "verb", "adj", "adv")),
    "cntlist.rev",
    "index.sense",
)
POS_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# Lexicographer files by number, and the part of speech of each: lexnames(5WN). Debian's package lacks the file itself.
LEXNAMES = {
    3: ("adj.all", "adj.pert"),
    4: ("adv.all",),
    1: tuple(
        f"noun.{name}"
        for name in "Tops act animal artifact attribute body cognition communication event feeling food group location"
        " motive object person phenomenon plant possession process quantity relation shape state substance time".split()
    ),
    2: tuple(
        f"verb.{name}"
        for name in "body change cognition communication competition consumption contact creation emotion motion"
        " perception possession social stative weather".split()
    ),
}
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


def lexnames() -> str:
    """The text of the `lexnames` file, one line of number, name and part of speech per lexicographer file.

    `adj.ppl` is the last line, as in WordNet.
    """
    rows = [(name, pos) for pos, names in LEXNAMES.items() for name in names] + [("adj.ppl", 3)]
    return "".join(f"{number:02d}\t{name}\t{pos}\n" for number, (name, pos) in enumerate(rows))


def open_wordnet(source: Path, folder: Path) -> WordNetCorpusReader:
    """Open the WordNet files in the folder `source` with NLTK's reader.

    folder: an empty folder; links to the files are made in `folder`/corpora, where NLTK can read them. Raises
    FileNotFoundError with the first file that `source` lacks.
    """
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    target = folder / "corpora" / "wordnet"
    target.mkdir(parents=True)
    for name in FILES:
        if not (source / name).is_file():
            raise FileNotFoundError(
                f"{source / name}: no such file; WordNet 3.0 is in Debian's wordnet-base and wordnet-sense-index"
            )
        shutil.copyfile(source / name, target / name)
    (target / "lexnames").write_text(lexnames(), "utf-8")
    nltk.data.path.insert(0, str(folder))

    class English(WordNetCorpusReader):
        """NLTK's reader without its multilingual tables, which map WordNets of several languages onto each other."""

        def map_wn(self, version: str = "wordnet") -> None:
            """Do nothing, since no other WordNet is read."""

    return English(str(target), omw_reader=_NoMultilingual())


class _NoMultilingual:
    """Replaces NLTK's multilingual corpus, which English does not need."""


def table(reader: WordNetCorpusReader) -> pa.Table:
    """All synsets as a table, one row per synset, ordered by part of speech (n, v, a, r) and WordNet's offsets."""
    import pyarrow as pa

    synsets = sorted(
        {synset for pos in POS_FILES for synset in reader.all_synsets(pos)},
        key=lambda synset: ("nvar".index(_search_pos(synset.pos())), synset.offset()),
    )
    rows = {(_search_pos(synset.pos()), synset.offset()): row for row, synset in enumerate(synsets)}
    ranks = {pos: _ranks(reader, pos) for pos in POS_FILES}
    senses = [list(_lemmas(synset)) for synset in synsets]
    flat: dict[tuple[int, str], int] = {}
    for row, lemmas in enumerate(senses):
        for text, _ in lemmas:
            flat[row, text] = len(flat)

    def targets(related: list[Synset]) -> list[int]:
        return sorted(rows[_search_pos(synset.pos()), synset.offset()] for synset in related)

    def sense_targets(related: list[Lemma]) -> list[int]:
        pairs = ((targets([lemma.synset()])[0], _text(lemma.name())) for lemma in related)
        return sorted({flat[pair] for pair in pairs})

    irregular = _irregular(reader, ranks, rows)
    columns: dict[str, list[Any]] = {name: [] for name in TAXONOMY.names}
    for row, (synset, lemmas) in enumerate(zip(synsets, senses, strict=True)):
        pos = _search_pos(synset.pos())
        columns["pos"].append(synset.pos())
        columns["lexname"].append(synset.lexname())
        columns["senses"].append(
            [
                {
                    "lemma": text,
                    "rank": ranks[pos][text, synset.offset()],
                    "count": lemma.count(),
                    "antonyms": sense_targets(lemma.antonyms()),
                    "derived": sense_targets(lemma.derivationally_related_forms()),
                }
                for text, lemma in lemmas
            ]
        )
        columns["irregular"].append(irregular.get(row, []))
        for column, method in RELATIONS.items():
            columns[column].append(targets(getattr(synset, method)()))
    return pa.table(columns, TAXONOMY)


def _search_pos(pos: str) -> str:
    """The part of speech used in WordNet's index: "a" for satellite adjectives ("s"), else `pos` itself."""
    return "a" if pos == "s" else pos


def _text(name: str) -> str:
    """A lemma as it is looked up: in lower case, with spaces between its words."""
    return name.lower().replace("_", " ")


def _lemmas(synset: Synset) -> Iterator[tuple[str, Lemma]]:
    """(text, lemma) of the synset's lemmas; of those that differ only in case ("Moon", "moon"), the first."""
    seen: set[str] = set()
    for lemma in synset.lemmas():
        text = _text(lemma.name())
        if text not in seen:
            seen.add(text)
            yield text, lemma


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
    found: dict[int, set[tuple[str, str]]] = {}
    for pos, ranked in ranks.items():
        first = {lemma: offset for (lemma, offset), rank in ranked.items() if rank == 1}
        with reader.open(f"{POS_FILES[pos]}.exc") as lines:
            for line in lines:
                form, *lemmas = (_text(word) for word in line.split())
                for lemma in lemmas:
                    if lemma in first:
                        found.setdefault(rows[pos, first[lemma]], set()).add((lemma, form))
    return {row: [{"lemma": lemma, "form": form} for lemma, form in sorted(pairs)] for row, pairs in found.items()}


def licence(source: Path) -> str:
    """The text of WordNet's licence, from the numbered lines at the start of its files; all copies must include it."""
    lines = []
    with (source / "data.noun").open(encoding="utf-8") as file:
        for line in file:
            if not line.startswith("  "):
                break
            lines.append(line[:-1].strip().partition(" ")[2].rstrip())
    return "\n".join(lines).strip() + "\n"


def write(table: pa.Table, path: Path, metadata: dict[str, str]) -> None:
    """Write the table as one zstd Parquet file; metadata: its provenance, added to the schema."""
    import pyarrow.parquet as pq

    from ...schemas.fields import check

    check(table, TAXONOMY)
    pq.write_table(
        table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata}),
        path,
        compression="zstd",
        compression_level=19,
        row_group_size=1 << 20,
        store_schema=True,
        write_statistics=False,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Build WordNet's taxonomy as one Parquet file, without glosses and examples, with its licence beside it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--source", type=Path, default=Path("/usr/share/wordnet"), help="folder of an installed WordNet"
    )
    parser.add_argument("--output", type=Path, required=True, help="the Parquet file to write")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        try:
            reader = open_wordnet(options.source, Path(folder))
        except FileNotFoundError as error:
            parser.error(str(error))
        taxonomy = table(reader)
        metadata = {"source": f"WordNet {reader.get_version()}, Princeton University; see WORDNET_LICENSE.txt"}
    write(taxonomy, options.output, metadata)
    (options.output.parent / "WORDNET_LICENSE.txt").write_text(licence(options.source), "utf-8")
    print(f"{options.output}: {taxonomy.num_rows} synsets, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
