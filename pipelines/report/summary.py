"""What commands print when they are done: what was read, coverage and yield per operator, refusals, speed, examples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

import pyarrow as pa

from ...schemas.captions import PARSES
from ...schemas.messages import number_of
from ..engine.manifest import read_manifest
from ..engine.progress import Timing
from ..engine.tables import read_table
from ..tables.columns import sample, table_of
from .rows import print_rows
from .tables import console_of, print_table, terminal_table

if TYPE_CHECKING:
    from rich.table import Table

# A lexicon with fewer entries leaves most captions without a replacement.
FEW_ENTRIES = 100
# Captions are taken for English if WordNet knows at least this share of their words. It lacks words such as "the" and
# "with", and knows two thirds of the words of English captions.
ENGLISH = 0.5
# Counted as a reason of rejection, but for a caption for which an operator had no candidate that it could reject.
NO_CANDIDATE = "no_candidate"
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
    """A line that says where p_true comes from in a run in which no image has two captions; none for other runs."""
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
    components = counts_of(run, "components")
    words = counts_of(run, "component_vocabulary")
    captions = components.get("captions", 0)
    lines = []
    if captions:
        means = ", ".join(
            f"{components[kind] / captions:.1f} {kind}" for kind in ("objects", "attributes", "relations")
        )
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
    """The end of a line that says what was rejected: "; 3 records rejected (no_text 1, too_long 2)"; "" if nothing was.

    counts: of a stage, among them those named `rejected.<reason>`; what: the noun, here "record".
    """
    rejected = counts_below(counts, "rejected")
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(rejected.items()))
    return f"; {number_of(sum(rejected.values()), what)} rejected ({reasons})" if rejected else ""


class _Line(NamedTuple):
    """A line of `operators_table`: its label, the prefix of its counters, and the operators that it sums up."""

    label: str
    counter: str
    operators: Sequence[str]
    style: str = ""


def operators_table(counts: Mapping[str, int], families: Mapping[str, str]) -> Table:
    """A line for each family of operators, and for each operator of a family that has several or another name.

    Args:
        counts: the counters in the manifest of negatives.
        families: by operator, its family.
    """
    table = terminal_table("", "captions", "coverage", "rows", "per caption", "rejected", "no candidate")
    captions = counts.get("captions", 0)
    for line in _family_lines(families):
        covered = counts.get(f"{line.counter}.captions", 0)
        rows = counts.get(f"{line.counter}.rows", 0)
        per_caption = f"{rows / captions:.1f}" if captions else "–"
        rejected = sum(_rejected_candidates(counts, operator).total() for operator in line.operators)
        without_candidate = ""
        # Left out for a family: a caption without a candidate for one of its operators may have one for another.
        if len(line.operators) == 1:
            without_candidate = f"{counts.get(f'rejected.{line.operators[0]}.{NO_CANDIDATE}', 0):,}"
        cells = [f"{covered:,}", percent(covered, captions), f"{rows:,}", per_caption, f"{rejected:,}"]
        table.add_row(line.label, *cells, without_candidate, style=line.style)
    return table


def _family_lines(families: Mapping[str, str]) -> list[_Line]:
    """A line for each family of operators, followed by those of its operators.

    Args:
        families: the family of each operator: {"noun": "replace", ...}.
    """
    lines = []
    for family in dict.fromkeys(families.values()):
        members = [operator for operator in families if families[operator] == family]
        lines.append(_Line(family, f"family.{family}", members, "bold"))
        if members != [family]:
            lines += [_Line(f"  {operator}", operator, [operator]) for operator in members]
    return lines


WITHOUT = {  # why a caption got no negative, as the counters `without.<reason>` call it -> in words
    "unnatural": "only unnatural candidates (raise preferred_unnatural and max_unnatural)",
    "likely_true": "only candidates that are likely true",
    "refused": "candidates rejected for other reasons",
    NO_CANDIDATE: "nothing to change or no plausible word",
}


def coverage_lines(counts: Mapping[str, int]) -> list[str]:
    """How many captions have a negative, why others have none, and what operators that did not run would add.

    The last is estimated: the build tries such operators on a few of the captions without a negative (the counter
    `tried`), of which `more.<operator>` got one. counts: the counters of negatives; without the number of captions
    that got no negative there are no lines.
    """
    without = counts.get("captions.without")
    if without is None:
        return []
    captions = counts.get("captions", 0)
    covered = captions - without
    lines = [f"captions with a negative: {covered:,} of {captions:,} ({percent(covered, captions)})"]
    why = counts_below(counts, "without")
    reasons = ", ".join(f"{why[name]:,} with {meaning}" for name, meaning in WITHOUT.items() if name in why)
    if reasons:
        lines.append(f"{number_of(without, 'caption')} got no negative: {reasons}")
    tried = counts.get("tried", 0)
    estimates = {name: round(n * without / tried) for name, n in counts_below(counts, "more").items()}
    if estimates:
        lines.append(f"{would_add(estimates, 'about')} of them (estimated from {tried:,})")
    return lines


def would_add(captions: Mapping[str, int], how: str) -> str:
    """What other operators would cover, the most first; "" if there are none.

    For {"verb": 20, "noun": 3} and "about": "adding --operator verb would cover about 20, --operator noun about 3".
    """
    best_first = sorted(captions.items(), key=lambda entry: (-entry[1], entry[0]))
    phrases = [f"--operator {name} {how} {number:,}" for name, number in best_first]
    if not phrases:
        return ""
    phrases[0] = phrases[0].replace(f" {how}", f" would cover {how}", 1)
    return f"adding {', '.join(phrases)}"


def rejections_table(counts: Mapping[str, int], operators: Iterable[str]) -> Table | None:
    """Rejected candidates: one row per operator, with the most frequent reasons first. None if nothing was rejected."""
    table = terminal_table("", "rejected", "because")
    table.columns[-1].justify = "left"
    for operator in operators:
        rejected = _rejected_candidates(counts, operator)
        if rejected:
            table.add_row(operator, f"{rejected.total():,}", by_frequency(rejected))
    return table if table.rows else None


def _rejected_candidates(counts: Mapping[str, int], operator: str) -> Counter[str]:
    """By reason, how many candidates of an operator were rejected, by the counters of negatives."""
    return candidates(counts_below(counts, f"rejected.{operator}"))


def candidates(refused: Mapping[str, int]) -> Counter[str]:
    """Numbers of rejected candidates by reason, without the captions that had no candidate."""
    return Counter({reason: number for reason, number in refused.items() if reason != NO_CANDIDATE})


def by_frequency(counts: Mapping[str, int]) -> str:
    """Counts by name in words, the largest first: "related_in_sibling 40, unchanged 2"."""
    return ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def timings_table(timings: Sequence[Timing]) -> Table:
    """How many captions (or other units) each stage took, in how many seconds, and the rate."""
    table = terminal_table("stage", "done", "", "seconds", "per second")
    table.columns[2].justify = "left"
    for timing in timings:
        if timing.seconds:
            rate = f"{timing.rate:,.0f}" if timing.rate else ""
            table.add_row(timing.stage, f"{timing.captions:,}", timing.unit, f"{timing.seconds:.1f}", rate)
        else:
            table.add_row(timing.stage, "up to date")
    return table


def print_summary(run: Path, timings: Sequence[Timing], stream: TextIO) -> None:
    """Print what was read, the coverage, rejections and speed of a run, and a random negative of each operator."""
    from ...augment.operators import OPERATORS

    counts = counts_of(run, "negatives")
    families = {name: operator.family for name, operator in OPERATORS.items() if f"{name}.rows" in counts}
    console = console_of(stream)

    def print_line(line: str) -> None:
        console.print(line, soft_wrap=True, markup=False)

    for line in [*corpus_lines(run), *truth_lines(run), *component_lines(run)]:
        print_line(line)
    print_table(console, operators_table(counts, families))
    for line in coverage_lines(counts):
        print_line(line)
    if not any(counts[f"{name}.rows"] for name in families):
        refused = sum((Counter(counts_below(counts, f"rejected.{name}")) for name in families), Counter[str]())
        entries = sum(counts_of(run, "lexicon").get(kind, 0) for kind in LEXICON_KINDS)
        # The captions of the first shard are enough to tell why.
        parses = next(iter(read_table(run, "parses")), PARSES.empty_table())
        print_line(explain_no_negatives(parses, entries, refused, tuple(families)))
    for table in (rejections_table(counts, families), timings_table(timings)):
        if table is not None:
            print_table(console, table)
    console.print()
    for operator in families:
        if counts.get(f"{operator}.rows"):
            print_rows(sample(run, table_of([operator]), 1, wanted={"operator": [operator]}), stream)


WORD_CLASSES = {"NOUN": "noun", "VERB": "verb", "ADJ": "adjective", "NUM": "number", "ADP": "preposition"}


def explain_no_negatives(parses: pa.Table, entries: int, refused: Mapping[str, int], operators: Sequence[str]) -> str:
    """The likeliest reason why captions have no negatives, and what helps.

    Args:
        parses: the parsed captions, or the first of them.
        entries: the number of words in the lexicon.
        refused: the number of rejected candidates by reason.
        operators: those that were run.
    """
    if not parses.num_rows:
        return "no negatives: no caption is in English (captions in other languages are kept, but not changed)"
    words = _distinct_lemmas(parses)
    known = _count_in_wordnet(words)
    if known < ENGLISH * len(words):
        return f"no negatives: only {known} of {number_of(len(words), 'word')} are English; captions must be in English"
    rejected = candidates(refused)
    if rejected:
        return f"no negatives: all candidates were rejected, see the rejections ({by_frequency(rejected)})"
    if entries < FEW_ENTRIES:
        return f"no negatives: the vocabulary has only {number_of(entries, 'word')}; lexicon=auto adds the built-in one"
    first = parses.slice(0, 1).to_pylist()[0]
    content_words = []
    for token in first["tokens"]:
        if token["pos"] in WORD_CLASSES:
            content_words.append(f"{token['lemma']} ({WORD_CLASSES[token['pos']]})")
    reading = ", ".join(content_words) or "without any content word"
    return (
        f'no negatives: {", ".join(operators)} found nothing to change. The first caption, "{first["text"]}", was read '
        f"as {reading}: it needs a word that an operator changes, and for it a plausible other one that cannot mean "
        "the same thing; with excluded=true, the rejections name the words that were refused"
    )


def _distinct_lemmas(parses: pa.Table) -> list[str]:
    """The different lemmas of captions that are made of letters."""
    lemmas = {token["lemma"].lower() for tokens in parses["tokens"].to_pylist() for token in tokens}
    return [lemma for lemma in lemmas if lemma.isalpha()]


def _count_in_wordnet(words: Sequence[str]) -> int:
    """How many of the words WordNet knows."""
    from ...augment.language.wordnet import WordNet

    wordnet = WordNet.load()
    return sum(any(wordnet.senses(word, pos) for pos in "nvar") for word in words)
