"""What commands print when they are done: what was read, coverage and yield per operator, refusals, speed, examples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ...schemas.captions import PARSES
from ...schemas.messages import number_of
from ..engine.manifest import read_manifest
from ..engine.progress import Timing
from ..engine.tables import read_table
from ..tables.columns import sample, table_of
from .rows import print_rows

WIDTH = 100
FEW_ENTRIES = 100  # a lexicon with fewer entries leaves most captions without a replacement
# The lowest share of English words in captions that are taken for English. WordNet, which lacks words such as "the"
# and "with", knows two thirds of the words of English captions.
ENGLISH = 0.5
NO_CANDIDATE = "no_candidate"  # a reason of rejection that is of a caption: there was nothing to reject
LEXICON_KINDS = ("nouns", "prepositions", "numerals", "attributes", "verbs")


def counts_of(run: Path, table: str) -> Mapping[str, int]:
    """The counters in a table's manifest, summed over its shards; empty if there is no manifest."""
    manifest = read_manifest(run / table)
    return manifest.counts if manifest is not None else {}


def counts_below(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """The counters that begin with a prefix: counts_below({"rejected.noun.a": 1}, "rejected") -> {"noun.a": 1}."""
    return {name.removeprefix(f"{prefix}."): n for name, n in counts.items() if name.startswith(f"{prefix}.")}


def percent(part: float, whole: float) -> str:
    """`part` of `whole` in percent, with one decimal: "97.3 %"; a dash if `whole` is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def corpus_lines(run: Path) -> list[str]:
    """Up to three lines about a run: captions read, captions left out, and the sizes of the lexicon."""
    read = counts_of(run, "captions")
    lexicon = counts_of(run, "lexicon")
    lines = []
    if read:
        line = f"{number_of(read.get('captions', 0), 'caption')} of {number_of(read.get('images', 0), 'image')}"
        lines.append(line + rejected_text(read, "record"))
    skipped = counts_below(counts_of(run, "parses"), "skipped")
    if skipped:
        languages = ", ".join(f"{n:,} {language}" for language, n in sorted(skipped.items()))
        lines.append(f"not English, left out: {languages}")
    if lexicon:
        lines.append(_vocabulary_line(lexicon))
    return lines


def _vocabulary_line(lexicon: Mapping[str, int]) -> str:
    """The sizes of the lexicon, and which captions it was counted on, by its counters."""
    sizes = [number_of(lexicon[name], name.removesuffix("s")) for name in LEXICON_KINDS if name in lexicon]
    if "min_count" in lexicon and sizes:
        sizes[0] += f" (seen at least {number_of(lexicon['min_count'], 'time')})"
    if lexicon.get("given"):
        origin = "taken from elsewhere, not counted on these captions"
    else:
        split = "of the train split" if lexicon.get("train_only") else "(no train split found)"
        origin = f"counted on {number_of(lexicon.get('captions', 0), 'caption')} {split}"
    if lexicon.get("blended"):
        origin += f", plus the built-in counts (weight: {number_of(lexicon['reference_captions'], 'caption')})"
    return f"vocabulary: {', '.join(sizes)}; {origin}"


def truth_lines(run: Path) -> list[str]:
    """A line about a run in which no image has two captions: what p_true is then; none about other runs."""
    truth = counts_of(run, "truth")
    if not truth or truth.get("captions") or truth.get("given"):
        return []
    known = "p_true comes from built-in statistics alone" if truth.get("blended") else "p_true is not estimated"
    return [f"one caption per image: no other caption says what else is true, so {known}"]


def operator_errors(run: Path) -> int:
    """How often an operator failed on a caption of a run, which is then rejected as `operator_error`."""
    from ...augment.rows import OPERATOR_ERROR

    return sum(n for name, n in counts_of(run, "negatives").items() if name.endswith(f".{OPERATOR_ERROR}"))


def component_lines(run: Path) -> list[str]:
    """Up to two lines about a run: components per caption on average, and the sizes of their vocabulary."""
    made = counts_of(run, "components")
    words = counts_of(run, "component_vocabulary")
    captions = made.get("captions", 0)
    lines = []
    if captions:
        means = ", ".join(f"{made[kind] / captions:.1f} {kind}" for kind in ("objects", "attributes", "relations"))
        lines.append(f"per caption: {means}")
    if words:
        kinds = ", ".join(f"{words.get(f'{kind}s', 0):,} {kind}s" for kind in ("noun", "attribute", "relation"))
        lines.append(f"negative components of {kinds}, from {words['min_count']:,} occurrences")
    return lines


def features_line(run: Path, table: str) -> str:
    """One line about a run's table of features: images, shape, dtype, backbone, rejected images."""
    manifest = read_manifest(run / table)
    assert manifest is not None
    counts = manifest.counts
    metadata = manifest.identity.metadata
    dtype = manifest.identity.config["dtype"]
    shape = " x ".join(map(str, json.loads(metadata["shape"])))
    line = f"{table}: {number_of(counts['images'], 'image')}, {shape} {dtype} each, {metadata['backbone']}"
    return line + rejected_text(counts, "image")


def rejected_text(counts: Mapping[str, int], what: str) -> str:
    """What was rejected, by the counters named `rejected.<reason>`, to end a line: "; 3 records rejected (no_text 1,
    too_long 2)"; empty if nothing was. what: the noun, here "record".
    """
    rejected = counts_below(counts, "rejected")
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(rejected.items()))
    return f"; {number_of(sum(rejected.values()), what)} rejected ({reasons})" if rejected else ""


def operators_table(counts: Mapping[str, int], families: Mapping[str, str]) -> Table:
    """By family and operator captions with a negative, rows, rejections …; counts: of the manifest of negatives."""
    table = plain_table("", "captions", "coverage", "rows", "per caption", "rejected", "no candidate")
    captions = counts.get("captions", 0)
    refusals = {name: sum(candidates(counts_below(counts, f"rejected.{name}")).values()) for name in families}
    for family in dict.fromkeys(families.values()):
        members = [operator for operator, its in families.items() if its == family]
        lines = [(family, f"family.{family}", members, "bold")]
        lines += [(f"  {operator}", operator, [operator], "") for operator in members] if members != [family] else []
        for label, name, operators, style in lines:
            covered = counts.get(f"{name}.captions", 0)
            rows = counts.get(f"{name}.rows", 0)
            mean = f"{rows / captions:.1f}" if captions else "–"
            refused = sum(map(refusals.__getitem__, operators))
            shown = f"{covered:,}", percent(covered, captions), f"{rows:,}", mean, f"{refused:,}"
            bare = f"{counts.get(f'rejected.{operators[0]}.{NO_CANDIDATE}', 0):,}" if len(operators) == 1 else ""
            table.add_row(label, *shown, bare, style=style)
    return table


WITHOUT = {
    "unnatural": "only unnatural candidates (raise preferred_unnatural and max_unnatural)",
    "likely_true": "only candidates that are likely true",
    "refused": "candidates rejected for other reasons",
    NO_CANDIDATE: "nothing to change or no plausible word",
}


def coverage_lines(counts: Mapping[str, int]) -> list[str]:
    """How many captions have a negative, why others have none, and for about how many of these operators that did not
    run would have one, by the counters of negatives, if counted; those that were tried tell it of all.
    """
    if (without := counts.get("captions.without")) is None:
        return []
    captions = counts.get("captions", 0)
    why = counts_below(counts, "without")
    have = f"captions with a negative: {captions - without:,} of {captions:,} ({percent(captions - without, captions)})"
    reasons = ", ".join(f"{why[name]:,} with {WITHOUT[name]}" for name in WITHOUT if name in why)
    none = f"{number_of(without, 'caption')} got no negative: {reasons}"
    tried = counts.get("tried", 0)
    more = counts_below(counts, "more")
    hints = would_add({name: round(n * without / tried) for name, n in more.items()}, "about")
    lines = [have, *([none] if reasons else [])]
    return [*lines, f"{hints} of them (estimated from {tried:,})"] if hints else lines


def would_add(captions: Mapping[str, int], how: str) -> str:
    """What other operators would cover, the most first: "adding --operator verb would cover about 20, --operator noun
    about 3"; "" without any.
    """
    best = sorted(captions.items(), key=lambda entry: (-entry[1], entry[0]))
    said = [f"--operator {name} {how} {number:,}" for name, number in best]
    return f"adding {', '.join(said)}".replace(f" {how}", f" would cover {how}", 1) if said else ""


def rejections_table(counts: Mapping[str, int], operators: Iterable[str]) -> Table | None:
    """Rejected candidates: one row per operator, with the most frequent reasons first. None if nothing was refused."""
    table = plain_table("", "rejected", "because")
    table.columns[-1].justify = "left"
    for operator in operators:
        if refused := candidates(counts_below(counts, f"rejected.{operator}")):
            table.add_row(operator, f"{sum(refused.values()):,}", by_frequency(refused))
    return table if table.rows else None


def candidates(refused: Mapping[str, int]) -> dict[str, int]:
    """Numbers of rejected candidates by reason, without that of captions which had no candidate."""
    return {reason: number for reason, number in refused.items() if reason != NO_CANDIDATE}


def by_frequency(counts: Mapping[str, int]) -> str:
    """Counts by name in words, the largest first: "related_in_sibling 40, unchanged 2"."""
    return ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def timings_table(timings: Sequence[Timing]) -> Table:
    """How many captions (or other units) each stage in `timings` took, in how many seconds, and the rate."""
    table = plain_table("stage", "done", "", "seconds", "per second")
    table.columns[2].justify = "left"
    for timing in timings:
        rate = f"{timing.rate:,.0f}" if timing.rate else ""
        made = f"{timing.captions:,}", timing.unit, f"{timing.seconds:.1f}", rate
        table.add_row(timing.stage, *(made if timing.seconds else ["up to date"]))
    return table


def print_summary(run: Path, timings: Sequence[Timing], stream: TextIO, examples: int = 1) -> None:
    """Print a summary of a run: what was read, yield, refusals, speed, and `examples` random rows per operator."""
    from ...augment.operators import OPERATORS

    counts = counts_of(run, "negatives")
    families = {name: operator.family for name, operator in OPERATORS.items() if f"{name}.rows" in counts}
    console = console_of(stream)
    for line in [*corpus_lines(run), *truth_lines(run), *component_lines(run)]:
        console.print(line, soft_wrap=True, markup=False)
    print_table(console, operators_table(counts, families))
    for line in coverage_lines(counts):
        console.print(line, soft_wrap=True, markup=False)
    if not any(counts[f"{name}.rows"] for name in families):
        refused = sum((Counter(counts_below(counts, f"rejected.{name}")) for name in families), Counter[str]())
        entries = sum(counts_of(run, "lexicon").get(kind, 0) for kind in LEXICON_KINDS)
        parses = next(iter(read_table(run, "parses")), PARSES.empty_table())
        reason = explain_no_negatives(parses, entries, refused, tuple(families))
        console.print(reason, soft_wrap=True, markup=False)
    for table in (rejections_table(counts, families), timings_table(timings)):
        if table is not None:
            print_table(console, table)
    console.print()
    for operator in families:
        if counts.get(f"{operator}.rows"):
            print_rows(sample(run, table_of([operator]), examples, wanted={"operator": [operator]}), stream)


def explain_no_negatives(parses: pa.Table, entries: int, refused: Mapping[str, int], operators: Sequence[str]) -> str:
    """The likeliest reason why these parsed captions have no negatives, and what helps. entries: words of the lexicon.
    refused: candidates by reason. operators: those that were run.
    """
    from ...augment.language.wordnet import WordNet

    if not parses.num_rows:
        return "no negatives: no caption is in English (captions in other languages are kept, but not changed)"
    lemmas = {token["lemma"].lower() for tokens in parses["tokens"].to_pylist() for token in tokens}
    words = [lemma for lemma in lemmas if lemma.isalpha()]
    wordnet = WordNet.load()
    known = sum(any(wordnet.senses(word, pos) for pos in "nvar") for word in words)
    if known < ENGLISH * len(words):
        return f"no negatives: only {known} of {number_of(len(words), 'word')} are English; captions must be in English"
    if refused := candidates(refused):
        return f"no negatives: all candidates were rejected, see the rejections ({by_frequency(refused)})"
    if entries < FEW_ENTRIES:
        return f"no negatives: the vocabulary has only {number_of(entries, 'word')}; lexicon=auto adds the built-in one"
    first = parses.slice(0, 1).to_pylist()[0]
    kinds = {"NOUN": "noun", "VERB": "verb", "ADJ": "adjective", "NUM": "number", "ADP": "preposition"}
    read = [f"{token['lemma']} ({kinds[token['pos']]})" for token in first["tokens"] if token["pos"] in kinds]
    found = ", ".join(read) or "without any content word"
    return (
        f'no negatives: {", ".join(operators)} found nothing to change. The first caption, "{first["text"]}", was read '
        f"as {found}: it needs a word that an operator changes, and for it a plausible other one that cannot mean the "
        "same thing; with excluded=true, the rejections name the words that were refused"
    )


def console_of(stream: TextIO) -> Console:
    """A console for a stream, as wide as the terminal; if it is none, 100 characters, so that numbers are not cut."""
    return Console(file=stream, highlight=False, width=None if stream.isatty() else WIDTH)


def print_table(console: Console, table: Table) -> None:
    """Print an empty line and a table, without spaces at the ends of lines."""
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().strip("\n").splitlines()]
    console.file.write("\n".join(["", *filter(None, lines), ""]))


def plain_table(first: str, *others: str) -> Table:
    """A table without rows; the first column is aligned left, the others (numbers) right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table
