"""Negatives that others wrote: find what they change in their caption, and whether the captions make them true.

`recover` tells which word is replaced by which, or what is swapped; `judge_negatives` whether that is true, false or
undecidable by the captions of the image, and whether the negative is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import NamedTuple, cast

from pydantic import Field

from .caption import Caption
from .edits import Edit
from .evidence import Evidence, mentions_of
from .language.grammar import indefinite_article
from .language.negation import NEGATIONS
from .language.wordnet import first_sense
from .lexicon.lexicon import Lexicon
from .operators import violation_of_row
from .operators.swap import swap_row
from .raters import PREFERRED_UNNATURAL, rate_rows
from .rows import BOTH, UNNATURAL, Change, Row, exchange_row
from .settings import Cloze, MaxTrue, Settings, SpacyModel
from .slots.nouns import Slot, attribute_slots, noun_slots, numeral_slots
from .slots.verbs import preposition_uses
from .truth.contradiction import likely_violation
from .truth.entailment import (
    ChangedSpan,
    ContentWord,
    canonical_meaning,
    content_words,
    is_kind_of,
    leaves_open,
    may_change_places,
    span_excludes_word,
    span_follows,
)
from .truth.estimates import MAX_P_TRUE

DENIAL = NEGATIONS | {"image", "photo", "picture"}  # in a denial not what is denied: "there is no dog in the picture"
REWRITE = "rewrite"  # the operator named if no other fits
# What a negative may turn out to be -> its family.
FAMILIES_OF = {
    "replace_noun": "noun",
    "replace_numeral": "numeral",
    "replace_preposition": "relation",
    "replace_verb": "relation",
    "replace_attribute": "attribute",
    "swap": "relation",
    "swap_attribute": "attribute",
    "add": "object",
    "remove": "object",
    "negate": "negation",
    REWRITE: "other",
}
_PIECE = re.compile(r"\s+|[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_")
NOT_COMPARED = ("unchanged", "too_long")  # reasons for which a negative is not compared with its caption


class Recovered(NamedTuple):
    """What a negative does to its caption: the operator, a key of FAMILIES_OF, and the row with the change."""

    operator: str
    row: Row


def recover(caption: Caption, negative: Caption) -> Recovered:
    """Find what turned a caption into a negative, whoever has made it; both are parsed.

    The edits are those of `align_words`. `replaced` and `replacement` are lexicon entries where both parses agree on
    what kind of word stands there, else the words as written. Words that only agree with the change ("a" to "an", "is"
    to "are", "his" to "her") do not count. The row of equal texts is rejected as `unchanged`.
    """
    edits = align_words(caption.text, negative.text)
    if not edits or caption.text.lower() == negative.text.lower():
        row = Row(change="none", edits=edits, tokens=(), replaced="", replacement="", reason="unchanged")
        return Recovered(REWRITE, row)
    main = _main_spans(caption, negative, edits)
    old = [" ".join(caption.lowered[span.start : span.end]) for span in main]
    new = [" ".join(negative.lowered[span.new_start : span.new_end]) for span in main]
    # Unless the words prove to be lexicon entries below, the row has them as written, "man | dog" for two places.
    row_as_written = Row(change="none", edits=edits, tokens=(), replaced=BOTH.join(old), replacement=BOTH.join(new))

    # From what is most specific to what is least: a swap may look like two replacements, and a denial like an addition.
    if len(main) == 2:
        swapped = _recover_swap(caption, negative, main[0], main[1], edits)
        if swapped is not None:
            return swapped
    if Counter(caption.lowered) == Counter(negative.lowered):
        return Recovered("swap", row_as_written)
    changed_words = {*" ".join(old).split(), *" ".join(new).split()}
    if NEGATIONS & changed_words:
        return Recovered("negate", row_as_written)
    replaced = _recover_replacement(caption, negative, main, edits)
    if replaced is not None:
        return replaced
    if not any(old):  # BOTH may still stand in `replaced`, between nothing and nothing
        return Recovered("add", replace(row_as_written, replaced=""))
    return Recovered("remove" if not any(new) else REWRITE, row_as_written)


def align_words(caption: str, text: str) -> tuple[Edit, ...]:
    """The edits of whole words that turn `caption` into `text`; none if the texts are equal.

    They are disjoint, in order, and as short as they can be. If neighbouring words change, each has an edit of its own
    where one word replaces one word ("an orange" -> "a grey"); else they have one edit ("in front of" -> "next
    to"). An inserted word brings the space behind it, or at the end of the text the one before it.
    """
    old = _PIECE.findall(caption)
    new = _PIECE.findall(text)
    starts = [0, *accumulate(map(len, old))]
    runs: list[list[ChangedSpan]] = []  # of neighbouring spans, here of pieces: words, marks and white space
    for tag, *bounds in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        span = ChangedSpan(*bounds)
        # White space between two changed words is equal in both texts, and divides no phrase.
        if runs and "".join(old[runs[-1][-1].end : span.start]).isspace():
            runs[-1].append(span)
        else:
            runs.append([span])

    spans: list[ChangedSpan] = []
    for run in runs:
        first = run[0]
        last = run[-1]
        if all(span.is_one_for_one for span in run):
            spans += run
        else:
            spans.append(ChangedSpan(start=first.start, end=last.end, new_start=first.new_start, new_end=last.new_end))
    return tuple(
        _without_shared_space(
            caption, Edit(starts[span.start], starts[span.end], "".join(new[span.new_start : span.new_end]))
        )
        for span in spans
    )


def _without_shared_space(caption: str, edit: Edit) -> Edit:
    """An edit without the white space with which old and new text both begin or end; inserted " red" becomes "red "."""
    start, end, new = edit
    while start < end and new and caption[start] == new[0] and new[0].isspace():
        start += 1
        new = new[1:]
    while start < end and new and caption[end - 1] == new[-1] and new[-1].isspace():
        end -= 1
        new = new[:-1]
    # An insertion gets the space behind it, as `align_words` promises: "a| dog" + " red" -> "a |dog" + "red ".
    if start == end and new[:1].isspace() and caption[start : start + 1] == new[0]:
        return Edit(start + 1, end + 1, new[1:] + new[0])
    return Edit(start, end, new)


def _main_spans(caption: Caption, negative: Caption, edits: tuple[Edit, ...]) -> list[ChangedSpan]:
    """The spans of tokens that differ, without those whose words only agree with others; all, if there are no others.

    edits: what turns the caption into the negative.
    """
    spans = []
    shift = 0  # by how many characters the negative is longer up to here
    for start, end, new in edits:
        old_tokens = _tokens_of(caption, start, end)
        new_tokens = _tokens_of(negative, start + shift, start + shift + len(new))
        spans.append(ChangedSpan(old_tokens.start, old_tokens.stop, new_tokens.start, new_tokens.stop))
        shift += len(new) - (end - start)
    return [span for span in spans if not _only_agrees(caption, negative, span)] or spans


def _tokens_of(caption: Caption, start: int, end: int) -> range:
    """The tokens with a character between `start` and `end` (exclusive), two positions in the caption's text.

    If there is none, as for an insertion, the empty range before the first token that begins at or behind `start`.
    """
    inside = [token.index for token in caption.tokens if token.start < end and start < token.end]
    if inside:
        return range(inside[0], inside[-1] + 1)
    before = sum(token.start < start for token in caption.tokens)
    return range(before, before)


def _only_agrees(caption: Caption, negative: Caption, span: ChangedSpan) -> bool:
    """Whether a change of one word only makes it agree: "a" and "an", "is" and "are", or two pronouns, "his" and "her".

    span: the changed tokens.
    """
    if not span.is_one_for_one:
        return False
    old = caption.tokens[span.start]
    new = negative.tokens[span.new_start]
    if old.lower in ("a", "an") and new.lower in ("a", "an"):
        return True
    are_verbs = old.pos in ("VERB", "AUX") and new.pos in ("VERB", "AUX")
    are_pronouns = old.tag.startswith("PRP") and new.tag.startswith("PRP")
    return are_pronouns or (are_verbs and old.lemma == new.lemma)


def _all_slots(caption: Caption) -> list[Slot]:
    """The slots of a caption, the most specific kinds first; also those of verbs that no operator replaces."""
    verbs = [token for token in caption.tokens if token.tag.startswith("VB") and token.pos != "AUX"]
    return [
        *numeral_slots(caption),
        *attribute_slots(caption),
        *preposition_uses(caption),
        *noun_slots(caption),
        *(Slot("verb", verb.index, verb.index + 1, entry=verb.lemma, noun=verb.index) for verb in verbs),
    ]


def _recover_replacement(
    caption: Caption, negative: Caption, main: list[ChangedSpan], edits: tuple[Edit, ...]
) -> Recovered | None:
    """A word that is replaced by another of its kind, if all that is changed lies in its slot; None otherwise.

    main: the changed spans, see `_main_spans`. edits: all that turns the caption into the negative.
    """
    whole = ChangedSpan(start=main[0].start, end=main[-1].end, new_start=main[0].new_start, new_end=main[-1].new_end)
    slots_of_negative = _all_slots(negative)
    for slot in _all_slots(caption):
        others = [other for other in slots_of_negative if other.kind == slot.kind and other.entry != slot.entry]
        find_other = _other_numeral if slot.kind == "numeral" else _other_word
        other = find_other(caption, negative, whole, slot, others)
        if other is None:
            continue
        is_noun = slot.kind == "noun"
        is_one_token = slot.kind in ("noun", "numeral", "verb")
        row = Row(
            change=cast(Change, slot.kind),
            edits=edits,
            # As operators fill it in: the word itself, or the first word of an attribute or preposition and its noun.
            tokens=(slot.noun,) if is_one_token else (slot.start, slot.noun),
            replaced=slot.entry,
            replacement=other.entry,
            replaced_synset=first_sense(slot.entry) if is_noun else None,
            replacement_synset=first_sense(other.entry) if is_noun else None,
        )
        return Recovered(f"replace_{slot.kind}", row)
    return None


def _other_numeral(
    caption: Caption, negative: Caption, span: ChangedSpan, slot: Slot, negative_slots: list[Slot]
) -> Slot | None:
    """The negative's numeral that has taken the place of a numeral of the caption; None if more than that is changed.

    The noun may change with the numeral: to another form ("a dog" -> "two dogs") or to a hypernym ("a person" -> "two
    people"). span: all that is changed. slot: of the caption's numeral. negative_slots: of the negative's numerals.
    """
    noun = caption.tokens[slot.noun]
    new_tokens = negative.tokens[span.new_start : span.new_end]
    if span.start == slot.start and span.end > span.start:
        # The change begins with the numeral, and may go on to its noun.
        keeps_noun = any(is_kind_of("noun", noun.lemma, token.lemma) for token in new_tokens)
        is_covered = span.end <= noun.index + 1 and (span.end == slot.end or keeps_noun)
    else:
        is_covered = slot.start <= span.start and span.end <= slot.end
    if not is_covered:
        return None
    for other in negative_slots:
        if other.start == span.new_start and is_kind_of("noun", noun.lemma, negative.tokens[other.noun].lemma):
            return other
    return None


def _other_word(
    caption: Caption, negative: Caption, span: ChangedSpan, slot: Slot, negative_slots: list[Slot]
) -> Slot | None:
    """The slot of the negative that has taken the place of a slot of the caption; None if more than that is changed.

    A noun's article may change with it: "a dog" -> "an elephant". span: all that is changed. slot: of the caption, and
    negative_slots: of the negative, all of one kind of word.
    """
    begins_with_article = span.start == slot.start - 1 and caption.lowered[span.start] in ("a", "an")
    if span.end > slot.end:
        return None
    # The slot in the negative has as many unchanged tokens before and behind the change as the slot in the caption.
    if slot.start <= span.start:
        new_start = span.new_start - (span.start - slot.start)
    elif slot.kind == "noun" and begins_with_article:
        new_start = span.new_start + 1  # behind the new article, which is no part of a noun's slot
    else:
        return None
    new_end = span.new_end + (slot.end - span.end)
    return next((other for other in negative_slots if (other.start, other.end) == (new_start, new_end)), None)


def _recover_swap(
    caption: Caption, negative: Caption, left: ChangedSpan, right: ChangedSpan, edits: tuple[Edit, ...]
) -> Recovered | None:
    """Two nouns, or two attributes, that have changed places; None if the spans do not hold each other's words."""
    old_left = caption.lowered[left.start : left.end]
    old_right = caption.lowered[right.start : right.end]
    new_left = negative.lowered[left.new_start : left.new_end]
    new_right = negative.lowered[right.new_start : right.new_end]
    if not old_left or not old_right or new_left != old_right or new_right != old_left:
        return None
    spans = (left, right)
    nouns = [slot for span in spans for slot in noun_slots(caption) if span.start <= slot.noun < span.end]
    if len(nouns) == 2:
        first, second = nouns
        return Recovered("swap", swap_row(first, second, edits))
    attributes = [slot for span in spans for slot in attribute_slots(caption) if span.start <= slot.start < span.end]
    if len(attributes) == 2:
        first, second = attributes
        row = exchange_row("attribute_swap", edits, (first.noun, second.noun), first.entry, second.entry)
        return Recovered("swap_attribute", row)
    # Neither two nouns nor two attributes: nothing checks what else changes places.
    return Recovered("swap", exchange_row("none", edits, (), " ".join(old_left), " ".join(old_right)))


class Judging(Settings):
    """How negatives of unknown origin are judged. The caller loads `cloze`."""

    cautious: bool = Field(False, description="also reject what operators would refuse because it may be true")
    max_true: MaxTrue = MAX_P_TRUE
    plausible: bool = Field(False, description="also reject implausible negatives, as operators do")
    cloze: Cloze = None
    spacy_model: SpacyModel = None


class Verdict(NamedTuple):
    """What is found about a negative: the operator that would make it (see `recover`); whether it is true by the
    captions, one of negcap.schemas.negatives.TRUTH_VALUES, None if it is too long to be parsed; and its row, which has
    a reason if it is not accepted.
    """

    operator: str
    verdict: str | None
    row: Row


def judge_negatives(
    evidence_of_each: Sequence[Evidence], negatives: Sequence[Sequence[Caption]], lexicon: Lexicon, settings: Judging
) -> list[list[Verdict]]:
    """Judge the negatives of some captions, whoever wrote them: whether each is false, and whether it is fit.

    A negative is true if a caption of the image entails it, undecidable if its captions leave it open (see
    negcap.augment.truth.entailment), else false. It is rejected with one of these reasons:

    - `unchanged`, `repeated`: it is its caption, or an earlier negative of it.
    - `caption_says_so`, `sibling_says_so`: it is true.
    - `ungrammatical`: it has a grammatical fault that its caption lacks.
    - `too_long`: it, or its caption, is too long to be parsed.
    - If the settings ask for that: it may be true, as an operator would find, or it is unnatural.

    All but those that are unchanged or too long get a plausibility.

    Args:
        evidence_of_each: of each caption, with the truth estimates of its image.
        negatives: of each caption, parsed.
        lexicon: of the operators.
        settings: what else is rejected.

    Returns:
        For each caption, the verdicts in the order of its negatives.
    """
    verdicts: list[list[Verdict]] = []
    for evidence, negatives_of_caption in zip(evidence_of_each, negatives, strict=True):
        seen = set[str]()
        verdicts.append([])
        for negative in negatives_of_caption:
            recovered = recover(evidence.caption, negative)
            row = recovered.row
            truth = _truth_value(recovered, negative, evidence)
            row.text = negative.text
            assert evidence.image is not None
            row.p_true = None if truth.true_by else evidence.image.p_true(row, evidence.caption)
            if row.reason is None:
                _give_reason(row, truth, evidence, lexicon, settings, is_repeated=negative.text.lower() in seen)
            seen.add(negative.text.lower())
            verdicts[-1].append(Verdict(operator=recovered.operator, verdict=truth.value, row=row))
    # A second pass, in which all negatives are read together by the cloze model.
    compared = [
        (evidence, verdict.row)
        for evidence, verdicts_of_caption in zip(evidence_of_each, verdicts, strict=True)
        for verdict in verdicts_of_caption
        if verdict.row.reason not in NOT_COMPARED
    ]
    rate_rows(
        [evidence.caption for evidence, _ in compared],
        [evidence.encoding for evidence, _ in compared],
        [row for _, row in compared],
    )
    for _, row in compared:
        if row.reason is None and settings.plausible and (row.p_unnatural or 0.0) > PREFERRED_UNNATURAL:
            row.reason = UNNATURAL
    return verdicts


def _give_reason(
    row: Row, truth: TruthValue, evidence: Evidence, lexicon: Lexicon, settings: Judging, *, is_repeated: bool
) -> None:
    """Give a row the reason for which it is rejected, if there is one, and what decided."""
    if truth.value is None:  # a text was not parsed
        row.reason = "too_long"
    elif is_repeated:
        row.reason = "repeated"
    elif count_faults(row.text) > count_faults(evidence.caption.text):
        row.reason = "ungrammatical"
    elif truth.true_by:
        row.reason = truth.true_by
        row.detail = truth.word
        row.sibling_id = truth.sibling_id
    elif settings.cautious and (violation := violation_of_row(row, evidence, lexicon)):
        violation.reject(row)
    elif settings.cautious and row.p_true is not None and evidence.image is not None:
        if row.p_true > evidence.image.truth.max_p_true:
            likely_violation(row, evidence).reject(row)


class TruthValue(NamedTuple):
    """One of TRUTH_VALUES, None if a text was not parsed; and the reason for which a true one is rejected, with the
    word and the caption_id of the sibling that decide, if one does.
    """

    value: str | None
    true_by: str | None = None
    word: str | None = None
    sibling_id: str | None = None


def _truth_value(recovered: Recovered, negative: Caption, evidence: Evidence) -> TruthValue:
    """Whether a negative is true by the captions of its image.

    A text that does more than replace, exchange or deny counts as false under three conditions: at most half of the
    caption's words change, one of them is replaced by a word that excludes it, and no other caption has what is new.
    """
    caption = evidence.caption
    operator, row = recovered
    if caption.too_long or negative.too_long:
        return TruthValue(None)
    if _entails(caption, negative, recovered):
        return TruthValue("true", "caption_says_so")
    for sibling in evidence.siblings:
        if _entails(sibling, negative, recover(sibling, negative)):
            return TruthValue(value="true", true_by="sibling_says_so", word=None, sibling_id=sibling.caption_id)

    if operator in ("swap", "swap_attribute"):
        is_open = row.change == "swap" and may_change_places(caption, row.tokens, row.edits)
        return TruthValue("undecidable" if is_open else "false")
    main = _main_spans(caption, negative, row.edits)
    if operator == "negate":
        return TruthValue("false" if _denies_what_is_said(caption, negative, main) else "undecidable")
    is_said_by_sibling = _is_new_said_by_siblings(negative, evidence)
    if operator == "add" and is_said_by_sibling and all(is_said_by_sibling):
        return TruthValue("true", "sibling_says_so")
    if any(is_said_by_sibling):
        return TruthValue("undecidable")
    if operator.startswith("replace_"):
        is_open = leaves_open(operator.removeprefix("replace_"), row.replaced, row.replacement)
    else:
        is_small = 2 * sum(span.end - span.start for span in main) <= len(caption.tokens)
        is_open = not (is_small and any(span_excludes_word(caption, negative, span) for span in main))
    return TruthValue("undecidable" if is_open else "false")


def _denies_what_is_said(caption: Caption, negative: Caption, main: Sequence[ChangedSpan]) -> bool:
    """Whether the caption says all that a denial denies, which makes the denial false.

    "No animal" contradicts "a dog"; "no red dog" only "a red dog". main: the changed spans.
    """
    said = content_words(caption.tokens)

    def is_said(word: ContentWord) -> bool:
        """Whether the caption has this word, or a more specific one: "poodle" for "dog"."""
        return any(other.kind == word.kind and is_kind_of(word.kind, other.lemma, word.lemma) for other in said)

    new = (word for span in main for word in content_words(negative.tokens[span.new_start : span.new_end]))
    denied = [word for word in new if word.kind != "preposition" and word.lemma not in DENIAL]
    return all(is_said(word) for word in denied)


def _entails(caption: Caption, negative: Caption, recovered: Recovered) -> bool:
    """Whether a caption entails a text, given what turns the one into the other; False if either has a negation."""
    operator, row = recovered
    if row.reason == "unchanged":
        return True
    if not NEGATIONS.isdisjoint((*caption.lowered, *negative.lowered)):
        return False
    if operator in ("swap", "swap_attribute"):
        return canonical_meaning(caption) == canonical_meaning(negative)
    if operator.startswith("replace_"):
        return is_kind_of(operator.removeprefix("replace_"), row.replaced, row.replacement)
    return all(span_follows(caption, negative, span) for span in _main_spans(caption, negative, row.edits))


def _is_new_said_by_siblings(negative: Caption, evidence: Evidence) -> list[bool]:
    """For each thing that a negative mentions and its caption does not, whether another caption of the image does."""
    by_negative = mentions_of(negative)
    by_caption = evidence.caption_mentions
    by_siblings = evidence.sibling_mentions

    def has_kind_of(nouns: frozenset[str], noun: str) -> bool:
        """Whether any of these nouns names what `noun` names: "puppy" for "dog"."""
        return any(is_kind_of("noun", other, noun) for other in nouns)

    new_nouns = [noun for noun in by_negative["noun"] if not has_kind_of(by_caption["noun"], noun)]
    is_said = [has_kind_of(by_siblings["noun"], noun) for noun in new_nouns]
    for kind in by_negative.keys() - {"noun"}:
        new_mentions = by_negative[kind] - by_caption[kind]
        is_said += [mention in by_siblings[kind] for mention in new_mentions]
    return is_said


def count_faults(text: str) -> int:
    """The number of a/an that do not fit the next word, and of words that are written twice in a row: "an dog" -> 1."""
    faults = 0
    for word, following in pairwise(text.lower().split()):
        is_repeated = word == following and word.isalpha()
        is_article = word in ("a", "an") and following[:1].isalnum()
        is_wrong_article = is_article and indefinite_article(following) != word
        faults += int(is_repeated) + int(is_wrong_article)
    return faults
