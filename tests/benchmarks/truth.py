"""How many negatives are true by held-out captions: `python -m tests.benchmarks.truth CAPTIONS [--train CAPTIONS]`.

Negatives are made from the first captions of every image (`--shown`, default 2), as if there were no others, once
without refusing likely true ones, and once with each `--max-true`. The other captions judge them. A replacement noun is
true if it occurs there as a token (literal), is a synonym of a noun there, or its hypernym in WordNet by first senses
(closure). A numeral, preposition, attribute or verb is true if they state it of the same thing (said); a
lower quantity is true of a part ("a dog" if there are two; part). Lexicon, truth and balance are those that a build of
the shown captions has, and, if given, one of those of `--train`.

CAPTIONS is any source that `negcap build` reads, or a run with parses.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from negcap.augment.caption import Caption, Token, from_parses
from negcap.augment.generate import NegativesConfig, generate_tables
from negcap.augment.language.coreference import may_corefer
from negcap.augment.language.wordnet import WordNet
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.mentions import VERB_TAGS, mentioned_nouns, mentioned_verbs
from negcap.augment.slots.nouns import attribute_slots, numeral_slots, numeral_value
from negcap.augment.slots.verbs import preposition_slots, subject_of
from negcap.augment.truth.estimates import (
    MAX_P_TRUE,
    Truth,
    assertion_value,
    assertions_of,
    is_mentioned_once,
    values_of,
)
from negcap.pipelines.engine.cluster import executor
from negcap.pipelines.engine.progress import report
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.engine.stage import run_in_memory
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.quality.bias import TextPair, blind
from negcap.pipelines.stages import build

OPERATORS = ("noun", "object", "relation", "numeral", "preposition", "verb", "attribute")
HEADER = "corpus operator max_true captions rows".split() + ["true, %", "of first rows, %", "mean p, %", "n-grams, %"]


def parses(source: str, scratch: Path) -> pa.Table:
    """The parses of a run, or of a caption source, which is parsed into a new run in `scratch`."""
    run = Path(source)
    if not (run / "parses").is_dir():
        run = scratch / f"run{len(list(scratch.iterdir()))}"
        build.build(source, run, {}, Execution(executor(1, "synchronous"), report(True)), ("ingest", "parse"))
    return pa.concat_tables(read_table(run, "parses"))


@cache
def above(noun: str) -> tuple[int | None, frozenset[int]]:
    """The first sense (synset row) of a noun, else of its last word, if there is one, and it with all its hypernyms."""
    wordnet = WordNet.load()
    found = wordnet.senses(noun, "n") or wordnet.senses(noun.rpartition(" ")[2], "n")
    return (found[0], wordnet.closure(found[0])) if found else (None, frozenset())


def noun_verdict(noun: str, surfaces: set[str], held: Sequence[Caption]) -> str | None:
    """How held-out captions show a replacement noun to be true: literal, synonym or closure; None if they do not.

    surfaces: the noun's forms.
    """
    said = frozenset[str]().union(*map(mentioned_nouns, held))
    said -= frozenset(t.lemma for c in held for t in c.tokens if t.pos == "VERB")
    texts = [f" {' '.join(caption.lowered)} " for caption in held]
    if noun in said or any(f" {surface} " in text for surface in surfaces for text in texts):
        return "literal"
    (sense, _), others = above(noun), [above(other) for other in said]
    if sense is None:
        return None
    if any(other == sense for other, _ in others):
        return "synonym"
    return "closure" if any(sense in theirs for _, theirs in others) else None


def thing(kind: str, caption: Caption, row: dict) -> str | None:
    """The lemma of the noun whose numeral, preposition or attribute a negative changes; None if it is not found."""
    slots = {
        "numeral": [(slot.start, slot.noun) for slot in numeral_slots(caption)],
        "preposition": [(slot.start, slot.noun) for slot in preposition_slots(caption)],
        "attribute": [(slot.start, slot.noun) for slot in attribute_slots(caption)],
    }[kind]
    starts = {edit["start"] for edit in row["edits"]}
    return next((caption.tokens[noun].lemma for at, noun in slots if caption.tokens[at].start in starts), None)


def kind_of(row: dict, lexicon: Lexicon) -> str:
    """The kind of word that a negative replaces: noun, verb, numeral, preposition or attribute."""
    if row["operator"] == "object":
        return "noun"
    if row["operator"] != "relation":
        return row["operator"]
    if ".v." in (row["replacement_synset"] or ""):
        return "verb"
    is_preposition = row["replaced_synset"] is None and row["replaced"] in lexicon.entries("preposition").number
    return "preposition" if is_preposition else "noun"


def verdict(row: dict, caption: Caption, held: Sequence[Caption], lexicon: Lexicon) -> str | None:
    """How held-out captions show a negative to be true (see the module's docstring); None if they do not."""
    new, kind = row["replacement"], kind_of(row, lexicon)
    if kind == "noun":
        return noun_verdict(new, {new, lexicon.singular.get(new, new), lexicon.plural.get(new, new)}, held)
    if kind == "verb":
        return "said" if any(done(new, row, caption, other) for other in held) else None
    said = thing(kind, caption, row) if row["replaced"] else None
    if said is None or not is_mentioned_once(kind, said, caption):
        return None
    if not any(assertion_value(kind, new) in values_of(said, assertions_of(kind, other)) for other in held):
        return None
    return "part" if kind == "numeral" and numeral_value(new) < numeral_value(row["replaced"]) else "said"


def done(verb: str, row: dict, caption: Caption, other: Caption) -> bool:
    """Whether another caption has a verb with the subject that it has in a negative, or with an unknown subject."""

    def doer(of: Caption, token: Token) -> str:
        found = subject_of(of, token)
        return found.lemma if found else ""

    if verb not in mentioned_verbs(other):
        return False
    starts = {edit["start"] for edit in row["edits"]}
    edited = (token for token in caption.tokens if token.start in starts and token.pos == "VERB")
    mine = next((doer(caption, token) for token in edited), "")
    others = {doer(other, token) for token in other.tokens if token.lemma == verb and token.tag in VERB_TAGS}
    return not mine or any(not one or may_corefer(mine, one) for one in others)


def corpus_of(table: pa.Table, limit: float) -> tuple[Lexicon, Truth]:
    """The balanced lexicon and the truth estimates that a build has of the corpus `table`; limit: its --max-true."""
    tables = {"parses": table}
    for verb in build.LEXICON_VERBS:
        [stage] = build.VERBS_OF_BUILD[verb].stages
        config = build.configure(verb, {"max_true": limit, "operators": OPERATORS})
        tables.update(run_in_memory(stage, tables, config).tables)
    lexicon = Lexicon.from_table(tables["lexicon"])
    return lexicon.balanced(tables["balance"]), Truth.from_table(tables["truth"], lexicon, limit)


def measured(name: str, shown: pa.Table, held: dict[str, list[Caption]], limit: float, lexicon: Lexicon, truth: Truth,
             worst: int) -> list[tuple[str, ...]]:  # fmt: skip
    """One row of results per operator; prints the `worst` negatives of highest and of lowest p(true)."""
    tables, counts = generate_tables(shown, lexicon, NegativesConfig(operators=OPERATORS, max_true=limit), truth)
    captions = {caption.caption_id: caption for caption in from_parses(shown)}
    made = tables["negatives"].to_pylist()
    for row in made:
        row["verdict"] = verdict(row, captions[row["caption_id"]], held[row["image_id"]], lexicon)
    lines = []
    for operator in OPERATORS:
        rows = [row for row in made if row["operator"] == operator]
        first = [row for row in rows if row["negative_id"].endswith(":0")]
        pairs = [TextPair(row["caption"], row["text"], row["image_id"]) for row in first]
        likely = [row["p_true"] for row in rows if row["p_true"] is not None]
        lines.append((
            name, operator, f"{limit:g}", f"{counts[f'{operator}.captions']:,}", f"{len(rows):,}",
            share(rows), share(first), f"{100 * sum(likely) / max(len(likely), 1):.2f}",
            f"{blind(operator, pairs).ngrams.percent:.1f}",
        ))  # fmt: skip
        if worst:
            order = sorted((row for row in rows if row["p_true"] is not None), key=lambda row: -row["p_true"])
            for row in [*order[:worst], *order[-worst:]]:
                print(f"{operator} {row['p_true']:.4f} {row['verdict']}: {row['caption']} -> {row['text']}")
    return lines


def share(rows: Sequence[dict]) -> str:
    """The percentage of rows that are true, in total and by verdict."""
    how = Counter(row["verdict"] for row in rows if row["verdict"])
    parts = ", ".join(f"{100 * n / len(rows):.2f} {name}" for name, n in sorted(how.items()))
    return f"{100 * how.total() / max(len(rows), 1):.2f} ({parts})"


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions", help="captions to make negatives of")
    parser.add_argument("--train", help="other captions, for lexicon and truth")
    parser.add_argument("--max-true", type=float, action="append", help=f"may be repeated; default: {MAX_P_TRUE}")
    parser.add_argument("--shown", type=int, default=2, help="captions per image that negatives are made from")
    parser.add_argument("--images", type=int, help="only the first N images")
    parser.add_argument("--rows", type=int, default=0, help="print this many rows of highest and of lowest p(true)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        table = parses(given.captions, Path(scratch))
        train = parses(given.train, Path(scratch)) if given.train else None
    if given.images:
        table = table.filter(pc.is_in(table["image_id"], value_set=table["image_id"].unique()[: given.images]))
    seen: Counter[str] = Counter()
    held: dict[str, list[Caption]] = {}
    mask = []
    for caption in from_parses(table):
        mask.append(seen[caption.image_id] < given.shown)
        seen[caption.image_id] += 1
        held.setdefault(caption.image_id, []).extend([] if mask[-1] else [caption])
    shown = table.filter(pa.array(mask)).combine_chunks()
    lines = []
    for name, corpus in (("own", shown), *([("train", train)] if train is not None else [])):
        for limit in (1.0, *(given.max_true or [MAX_P_TRUE])):
            lines += measured(name, shown, held, limit, *corpus_of(corpus, limit), given.rows if limit < 1 else 0)
    print(f"{shown.num_rows:,} captions of {len(held):,} images shown, {table.num_rows - shown.num_rows:,} held out")
    print("\n".join(f"| {' | '.join(line)} |" for line in (HEADER, ("---",) * len(HEADER), *lines)))


if __name__ == "__main__":
    main()
