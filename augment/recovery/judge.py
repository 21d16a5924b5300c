"""Judge negatives of unknown origin with the checks that operators' candidates pass: truth, grammar, plausibility."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from pydantic import Field

from ..caption import Caption
from ..context import Context
from ..edits import Accepted, Candidate, Rejected
from ..language.coreference import coreference, may_corefer
from ..language.grammar import article
from ..language.semantic_classes import prepositions
from ..mentions import Mentions
from ..operators import OPERATORS, Limits
from ..plausibility import Change, SentenceScorer, compare
from ..settings import Cloze, LeastPlausibility, MaxTrue, Scorer, Settings, SpacyModel
from ..truth.contradiction import assess, relation_said
from ..truth.estimates import KIND_OF_CHANGE, MAX_P_TRUE
from .recover import Recovered, recover

# The operator whose limits a recovered change must keep to, if limits hold; others keep to the default limits.
LIKE = {
    "replace_noun": "noun",
    "replace_numeral": "numeral",
    "replace_preposition": "preposition",
    "replace_attribute": "attribute",
    "replace_verb": "verb",
    "swap": "shuffle",
    "swap_attribute": "swap_attribute",
}
NOT_COMPARED = ("unchanged", "too_long")  # reasons for which a negative is not compared with its caption


class Judging(Settings):
    """How negatives of unknown origin are judged. The caller loads `scorer` and `cloze`."""

    max_true: MaxTrue = MAX_P_TRUE
    plausible: bool = Field(False, description="reject implausible negatives, too, as operators do")
    min_plausibility: LeastPlausibility = None
    scorer: Scorer = None
    cloze: Cloze = None
    spacy_model: SpacyModel = None


class Judged(NamedTuple):
    """What became of a negative: its operator (see `recover`), and the negative, or why it is rejected."""

    operator: str
    outcome: Accepted | Rejected


def judge(
    contexts: Sequence[Context],
    negatives: Sequence[Sequence[Caption]],
    settings: Judging,
    scorer: SentenceScorer | None = None,
) -> list[list[Judged]]:
    """Judge the negatives of some captions; for each caption, the results in the order of its negatives.

    contexts: of each caption, with the truth estimates of its image. negatives: of each caption, parsed. A negative is
    rejected if it is its caption (`unchanged`), an earlier negative of it (`repeated`) or another caption of the image
    (`sibling_says_so`); has a grammatical fault that its caption lacks (`ungrammatical`); may be true (as `assess`
    says); or is implausible, where the settings ask for that; and if it or its caption is too long to be parsed
    (`too_long`). All but those that are unchanged or too long get a plausibility.
    """
    items: list[tuple[Context, Caption, Recovered, str | None, float | None]] = []
    for context, own in zip(contexts, negatives, strict=True):
        seen = set[str]()
        for negative in own:
            recovered = recover(context.caption, negative)
            items.append((context, negative, recovered, *_reason(recovered.candidate, negative, context, seen)))
            seen.add(negative.text.lower())
    compared = [item for item in items if item[3] not in NOT_COMPARED]
    changes = compare([context for context, *_ in compared], [recovered.candidate for _, _, recovered, *_ in compared])
    if scorer is not None:
        odds = scorer.log_likelihoods([negative.text for _, negative, *_ in compared])
        odds = odds - scorer.log_likelihoods([context.caption.text for context, *_ in compared])
        changes = [change._replace(log_odds=float(value)) for change, value in zip(changes, odds, strict=True)]
    following = iter(changes)
    judged = iter([_outcome(item, None if item[3] in NOT_COMPARED else next(following), settings) for item in items])
    return [[next(judged) for _ in own] for own in negatives]


def _outcome(
    item: tuple[Context, Caption, Recovered, str | None, float | None], change: Change | None, settings: Judging
) -> Judged:
    _, negative, (operator, candidate), reason, p_true = item
    odds, loss = (None, None) if change is None else (change.log_odds, change.loss)
    candidate = candidate._replace(plausibility=odds)
    if reason is None and change is not None and not _plausible(operator, change, settings):
        reason = "implausible"
    if reason is None:
        return Judged(operator, Accepted(candidate, negative.text, p_true, odds, loss))
    return Judged(operator, Rejected(candidate, reason, p_true, odds, loss))


def _plausible(operator: str, change: Change, settings: Judging) -> bool:
    if settings.min_plausibility is not None and change.log_odds < settings.min_plausibility:
        return False
    limits = OPERATORS[LIKE[operator]].limits if operator in LIKE else Limits()
    return not settings.plausible or limits is None or limits.allow(change)


def _reason(
    candidate: Candidate, negative: Caption, context: Context, seen: Iterable[str]
) -> tuple[str | None, float | None]:
    """Why a negative is rejected before its plausibility is known, or None; and its p_true, if estimated."""
    caption, image, lower = context.caption, context.image, negative.text.lower()
    assert image is not None  # `judge` asks for it
    if candidate.rejected is not None:
        return candidate.rejected, None
    if caption.too_long or negative.too_long:
        return "too_long", None
    if lower in seen:
        return "repeated", None
    if lower in context.texts:
        return "sibling_says_so", None
    if faults(negative.text) > faults(caption.text):
        return "ungrammatical", None
    if candidate.change == "none":
        return _already_said(negative, context), None
    known = context.lexicon.nouns.number
    if candidate.change == "noun" and candidate.replacement not in known:
        return _may_be_there(candidate.replacement, context), None
    if candidate.change == "preposition":
        object = caption.tokens[candidate.slots[1]].lemma
        if prepositions().may_both_hold(candidate.replaced, candidate.replacement, object):
            return "preposition_overlap", None
        if reason := relation_said(candidate, object, context):
            return reason, None
        p_true = image.p_true(candidate, caption)
        return ("likely_true" if p_true is not None and p_true > image.max_p_true else None), p_true
    kind = KIND_OF_CHANGE.get(candidate.change, "")
    words = image.truth.associations.get(kind)
    unknown = words is not None and candidate.replacement not in words.entries
    return assess(candidate, caption, context, None if unknown else image)


def _may_be_there(noun: str, context: Context) -> str | None:
    """Why a noun that is not in the lexicon may be in the image, as `check_noun` says of those that are."""
    for where, mentions in (("caption", context.own), ("sibling", context.siblings)):
        reasons = {coreference(noun, other) for other in mentions.nouns}
        for reason in ("related", "overlap"):
            if reason in reasons:
                return f"{reason}_in_{where}"
    return None


def _already_said(negative: Caption, context: Context) -> str | None:
    """`sibling_says_so` if all that a negative newly mentions is mentioned by other captions of the image."""
    new = Mentions((negative,))
    own, siblings = context.own, context.siblings
    nouns = {noun for noun in new.nouns - own.nouns if not any(may_corefer(noun, other) for other in own.nouns)}
    added = [
        (nouns, siblings.nouns),
        (new.attributes - own.attributes, siblings.attributes),
        (new.verbs - own.verbs, siblings.verbs),
        (new.relations - own.relations, siblings.relations),
    ]
    said = any(mentions for mentions, _ in added) and all(mentions <= theirs for mentions, theirs in added)
    return "sibling_says_so" if said else None


def faults(text: str) -> int:
    """The number of a/an that do not fit the next word, and of words that are written twice in a row."""
    number = 0
    for word, following in pairwise(text.lower().split()):
        number += word == following and word.isalpha()
        number += word in ("a", "an") and following[:1].isalnum() and article(following) != word
    return number
