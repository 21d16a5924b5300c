"""Negation: pairs of a true and a false sentence about two nouns, one that the image shows and one that it does not.

For "a man with a hat", whose image shows no helmet:

| | true | false |
|---|---|---|
| affirmative | a man with a hat | a man with a helmet |
| negative | a man without a helmet | a man without a hat |
| both | a man with a hat but no helmet | a man with a helmet but no hat |

So a noun is negated as well in true as in false sentences, and the words of negation tell nothing (NegBench, Alhamoud
et al. 2025, asks such sentences as multiple choice). Captions without a site of a negation are corrected: "on a table,
not a bench" and "is standing, not sitting".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from ..caption import Caption, cached, read_only
from ..context import Context
from ..edits import BOTH, NO, Candidate, Edit
from ..language.coreference import may_corefer
from ..language.grammar import ARTICLES, article
from ..language.semantic_classes import head
from ..language.wordnet import first_sense
from ..lexicon.lexicon import sample
from ..reproducible import exp, record_rng
from ..slots.nouns import noun_slots
from .negation_sites import FRAMES, NOUNS, Site, added_sites, negated_nouns, noun_sites, shown_nouns
from .replacement import draw, noun_candidates, noun_choices, open_nouns, verb_choices, weigh

# How many contrasts of a caption are drawn: enough for the operators' quotas, with those that are refused.
CONTRASTS = 8
# The lowest log-odds of a noun to the one that a caption has in its place, and the greatest difference of how much the
# caption lets expect the noun that is present and the absent one, both in nats.
MIN_ODDS = -2.0
MAX_DIFFERENCE = 1.5
# The log-odds of a noun, given a caption, above which the caption implies it: "a surfer with no surfboard".
IMPLIED = 0.0
RARE = -4.0  # the log-odds of a noun, given a caption, below which nobody would think of negating it
CORRECTIONS = 24  # how many corrections of a caption are drawn, most of which are too unlikely
LAST = 4  # results are cached for so many contexts; each keeps what is computed for its batch
MIN_CORRECTION = -2.0  # the lowest log-odds of a correction's word to the caption's
# Share of captions without a site of which the first sentence is a correction: readers call half of these odd, and no
# sentence about what the picture has.
OF_CORRECTIONS = 0.35


def negation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """False sentences: negate what is present, assert what is absent, or both ("with a helmet but no hat").

    A caption that has a negation is contradicted: "a man without a hat" -> "a man with a hat". `replaced` is what is
    true, `replacement` what the negative says; "not " precedes what is negated there ("no " what the caption negates).
    """
    contradicted = [
        Candidate("none", (edit,), (index,), f"no {noun}", noun, None, first_sense(noun))
        for noun, index, edit in negated_nouns(caption)
    ]
    yield from [*contradicted, *_false_candidates(caption, context, contrasts(caption, context), rng)][:draws]


def true_negation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """True sentences beside those of `negation`, about the same nouns in the same places.

    They negate what is absent, also beside what is present ("with a hat but no helmet"); what a sibling caption
    mentions is asserted, too. `replaced` is the caption's noun, `replacement` what the sentence says, which `negation`
    has as `replaced`.
    """
    yield from _true_candidates(caption, context, contrasts(caption, context))[:draws]


def corrected(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """False sentences for captions without a site of a negation: "on a table, not a bench", of "on a bench".

    Also "is standing, not sitting", and sentences that say only what is present, as in VALSE: "There are no dogs in the
    picture".
    """
    corrections = []
    for one in _corrections(caption, context):
        edits = tuple(sorted([*one.exchange.edits, _not_after(caption, one.exchange, one.old)]))
        said = one.present + BOTH + NO + one.absent, one.absent + BOTH + NO + one.present
        corrections.append(one.candidate(edits, *said))
    existing = _false_candidates(caption, context, existence(caption, context), rng)
    yield from ([*corrections, *existing] if rng.random() < OF_CORRECTIONS else [*existing, *corrections])[:draws]


def truly_corrected(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """The true sentences beside those of `corrected`: "on a bench, not a table"."""
    corrections = [
        one.candidate((_not_after(caption, one.exchange, one.new),), one.present, one.present + BOTH + NO + one.absent)
        for one in _corrections(caption, context)
    ]
    yield from [*corrections, *_true_candidates(caption, context, existence(caption, context))][:draws]


class Contrast(NamedTuple):
    """A site of a caption, a noun that the image shows there, and one that it does not; plural: of both nouns."""

    site: Site
    present: str
    absent: str
    plural: bool

    def candidate(self, edits: tuple[Edit, ...], replaced: str, replacement: str) -> Candidate:
        """The candidate with these edits, which says `replacement` ("hat | not dog") instead of `replaced`."""
        # The senses are of the nouns that are asserted, or else negated: "hat | not dog" -> "hat", "not dog" -> "dog".
        old, new = (said.partition(BOTH)[0].removeprefix(NO) for said in (replaced, replacement))
        senses = first_sense(old) if old else None, first_sense(new) if new else None
        return Candidate("negated_noun", edits, (self.site.index,), replaced, replacement, *senses, absent=self.absent)


@cached(LAST)
def contrasts(caption: Caption, context: Context) -> list[Contrast]:
    """Contrasts of a caption in random order; both operators have the same, whatever the seed.

    The absent noun is drawn from those that the caption lets expect about as much as the one that is present.
    """
    weighed = []
    for site in noun_sites(caption):
        if site.slot is not None:
            weighed.append((site, site.slot.entry, site.slot.plural, _weights_at(caption, context, site)))
    for frame, site in added_sites(caption).items():
        if frame != "exists":
            weighed += [(site, *noun) for noun in _unmentioned(caption, context, frame)]
    return _drawn("contrasts", caption, context, weighed)


@cached(LAST)
def existence(caption: Caption, context: Context) -> list[Contrast]:
    """Contrasts of a thing that a caption of the image mentions and an absent one as frequent, in random order.

    Of a person, if there is none and nothing to correct: "There are no actors in the picture".
    """
    nouns, site = context.lexicon.nouns, added_sites(caption).get("exists")
    if site is None:
        return []
    allowed, priors, weighed = _allowed(nouns.names, "exists"), nouns.priors[""], []
    shown = _shown_by_siblings(context, "exists") | dict(sorted(shown_nouns(caption, "exists")))
    if not shown and not _corrections(caption, context):
        persons = sorted(shown_nouns(caption, "exists", persons=True))
        shown = {noun if noun in nouns.number else head(noun): plural for noun, plural in persons}
    for noun, plural in sorted(shown.items()):
        if noun in nouns.number and noun in context.lexicon.forms(many=plural):
            difference = np.abs(priors - priors[nouns.number[noun]])
            weights = np.where(allowed & (difference <= MAX_DIFFERENCE), 1.0, 0.0)
            weighed.append((site, noun, plural, _without(weights, context, noun, many=plural)))
    return _drawn("existence", caption, context, weighed)


def _drawn(
    stream: str, caption: Caption, context: Context, weighed: Sequence[tuple[Site, str, bool, np.ndarray]]
) -> list[Contrast]:
    """Contrasts drawn from sites, their nouns, whether these are plural, and the weights of the absent nouns."""
    rng, names = record_rng(0, stream, caption.caption_id), context.lexicon.nouns.names
    contrasts = []
    for number, entry in sample([weights for *_, weights in weighed], rng, CONTRASTS):
        site, present, plural, _ = weighed[number]
        contrasts.append(Contrast(site, present, names[entry], plural))
    return contrasts


def _without(weights: np.ndarray, context: Context, noun: str, *, many: bool) -> np.ndarray:
    """Set to 0, in place, the weights of nouns that may name the same thing as `noun`, or have no such form."""
    names, forms = context.lexicon.nouns.names, context.lexicon.forms(many=many)
    weights[context.lexicon.may_corefer(noun)] = 0.0
    weights[[number for number in weights.nonzero()[0] if names[number] not in forms]] = 0.0
    return weights


def _weights_at(caption: Caption, context: Context, site: Site) -> np.ndarray:
    """The chance of each noun of the lexicon to be the absent one at a noun: (entries,), sum 1, or 0 if none fits."""
    nouns, slot = context.lexicon.nouns, site.slot
    nothing = np.zeros(len(nouns.names))
    if slot is None or slot.entry not in nouns.number:
        return nothing
    if any(may_corefer(slot.entry, other.entry) for other in noun_slots(caption) if other.noun != slot.noun):
        return nothing  # "a dog jumps on another dog"
    if slot.form not in nouns.priors:
        return nothing
    some, log_odds, _ = open_nouns(context.batch, [(context.number, slot)], plural=slot.plural)
    drawn = _allowed(nouns.names, site.frame)[some.new] & (log_odds >= MIN_ODDS)
    weights = np.zeros(len(nouns.names))
    weights[some.new] = np.where(drawn, weigh(nouns, [slot.entry], some, plural=slot.plural), 0.0)
    if site.frame == "near" and not weights.any() and context.said.image is not None:
        expected = context.said.image.expected_nouns(caption)
        if expected is not None:
            weights = _similar(context, expected, slot.entry, site.frame, plural=slot.plural)
    return _normalised(weights)


def _unmentioned(caption: Caption, context: Context, frame: str) -> Iterator[tuple[str, bool, np.ndarray]]:
    """Nouns that only sibling captions mention, whether plural, and the chance of each noun to be the absent one."""
    expected = None if context.said.image is None else context.said.image.expected_nouns(caption)
    if expected is None:
        return
    for noun, plural in sorted(_shown_by_siblings(context, frame).items()):
        entry = context.lexicon.nouns.number.get(noun)
        if entry is None or expected[entry] > IMPLIED or context.said.coreferent_in_caption.reason(entry) is not None:
            continue
        yield noun, plural, _normalised(_similar(context, expected, noun, frame, plural=plural))


def _shown_by_siblings(context: Context, frame: str) -> dict[str, bool]:
    """The nouns that can be negated in a frame and that sibling captions mention; whether one has it in the plural."""
    shown: dict[str, bool] = {}
    for number, sibling in enumerate(context.said.siblings.captions):
        if number != context.said.siblings.without:
            for noun, plural in shown_nouns(sibling, frame):
                shown[noun] = shown.get(noun, False) or plural
    return shown


def _similar(context: Context, expected: np.ndarray, noun: str, frame: str, *, plural: bool) -> np.ndarray:
    """The weight of each noun that may be negated in a frame and is expected about as much as `noun`: (entries,)."""
    lexicon, names = context.lexicon, context.lexicon.nouns.names
    if noun not in lexicon.forms(many=plural):
        return np.zeros(len(names))
    level = expected[lexicon.nouns.number[noun]]
    difference = np.abs(expected - level)
    allowed = _allowed(names, frame) & (expected > RARE) & (difference <= MAX_DIFFERENCE)
    return _without(np.where(allowed & (level > RARE), exp(-difference), 0.0), context, noun, many=plural)


def _normalised(weights: np.ndarray) -> np.ndarray:
    total = weights.sum()
    return weights / total if total > 0 else weights


@cached(64)
def _allowed(names: tuple[str, ...], frame: str) -> np.ndarray:
    """A mask of the nouns that may be negated in a frame: (entries,), read-only."""
    nouns = FRAMES[frame].nouns
    return read_only(np.array([name in nouns for name in names], bool))


def _false_candidates(caption: Caption, context: Context, pairs: list[Contrast], rng: Random) -> list[Candidate]:
    """The false sentences about each contrast, of which those about one contrast are in random order."""
    candidates = []
    for contrast in pairs:
        site, present, absent, _ = contrast
        false = [
            contrast.candidate((site.negate(**_words(context, contrast, present)),), present, NO + present),
            contrast.candidate(_assertion(caption, context, contrast, absent), NO + absent, absent),
        ]
        if both := _both(caption, context, contrast, absent, present):
            false.append(contrast.candidate((both,), present + BOTH + NO + absent, absent + BOTH + NO + present))
        rng.shuffle(false)
        candidates += false
    return candidates


def _true_candidates(caption: Caption, context: Context, pairs: list[Contrast]) -> list[Candidate]:
    """What is true of the image: the absent noun is negated, or the present one asserted, or both."""
    candidates = []
    for contrast in pairs:
        site, present, absent, _ = contrast
        replaced = "" if site.slot is None else present
        words = _words(context, contrast, absent)
        candidates.append(contrast.candidate((site.negate(**words),), replaced, NO + absent))
        if both := _both(caption, context, contrast, present, absent):
            candidates.append(contrast.candidate((both,), replaced, present + BOTH + NO + absent))
        if site.slot is None:
            candidates.append(contrast.candidate(_assertion(caption, context, contrast, present), replaced, present))
    return candidates


def _words(context: Context, contrast: Contrast, noun: str) -> dict[str, str]:
    """A noun with its article and without, and the verbs that agree, as data/negation.toml has them."""
    lexicon, surface = context.lexicon, context.lexicon.in_number(noun, many=contrast.plural)
    no = surface
    if FRAMES[contrast.site.frame].plural:
        no = lexicon.in_number(noun, many=noun not in NOUNS["one"] and noun in lexicon.plural)
    bare = contrast.plural or noun in NOUNS["mass"]
    are = {"be": "are" if contrast.plural else "is", "be_no": "is" if no == lexicon.singular.get(noun) else "are"}
    return {"a": surface if bare else f"{article(surface)} {surface}", "no": no, **are}


def _both(caption: Caption, context: Context, contrast: Contrast, asserted: str, negated: str) -> Edit | None:
    """The edit that asserts one noun and negates the other; None if the frame has none."""
    site, words = contrast.site, _words(context, contrast, asserted)
    wording = FRAMES[site.frame].both
    if wording is None:
        return None
    if site.slot is not None:  # the adjectives of the caption's noun stay
        first = caption.tokens[caption.phrase_start(site.slot.noun)]
        before = caption.text[first.start : caption.tokens[site.slot.start].start]
        if before.lower() == "the ":
            before = "a "  # "with the ball" -> "with a stick but no ball"
        if before.strip() not in ARTICLES:
            words["a"] = before + context.lexicon.in_number(asserted, many=contrast.plural)
    return site.edit(wording, words | {"no": _words(context, contrast, negated)["no"]})


def _assertion(caption: Caption, context: Context, contrast: Contrast, noun: str) -> tuple[Edit, ...]:
    if contrast.site.slot is not None:
        return noun_candidates(caption, context.lexicon, contrast.site.slot)(noun).edits
    wording = FRAMES[contrast.site.frame].asserted
    assert wording is not None  # frames that add words assert a noun, too
    return (contrast.site.edit(wording, _words(context, contrast, noun)),)


class Correction(NamedTuple):
    """A noun or verb of a caption, and one that would be false in its place.

    present, absent: both as entries; old, new: as written, with the article. exchange: the candidate that replaces the
    one by the other.
    """

    present: str
    absent: str
    old: str
    new: str
    exchange: Candidate

    def candidate(self, edits: tuple[Edit, ...], replaced: str, replacement: str) -> Candidate:
        """The candidate with these edits, which says `replacement` ("hat | not dog") instead of `replaced`."""
        return self.exchange._replace(
            change="negated_verb" if self.exchange.change == "verb" else "negated_noun",
            edits=edits,
            replaced=replaced,
            replacement=replacement,
            plausibility=None,
            p_unnatural=None,
            p_compatible=None,
            absent=self.absent,
        )


@cached(LAST)
def _corrections(caption: Caption, context: Context) -> list[Correction]:
    """Corrections of a caption's nouns and participles in random order; both operators have the same."""
    if negated_nouns(caption):
        return []
    choices = [*noun_choices(caption, context), *verb_choices(caption, context)]
    choices = [choice for choice in choices if _correctable(caption, choice.tokens[0])]
    slots = {slot.noun: slot for slot in noun_slots(caption)}
    corrections = []
    for exchange in draw(choices, record_rng(0, "corrections", caption.caption_id), CORRECTIONS):
        if exchange.plausibility is not None and exchange.plausibility < MIN_CORRECTION:
            continue
        index = exchange.slots[0]
        if exchange.change == "verb":
            old, new = caption.lowered[index], exchange.edits[0].new.lower()
        else:
            slot, first = slots[index], caption.tokens[caption.phrase_start(index)]
            determiner = first.lower if first.dep == "poss" or first.lower in (*ARTICLES, "the") else ""
            surfaces = context.lexicon.forms(many=slot.plural)
            nouns = caption.span(slot.start, slot.end).lower(), surfaces[exchange.replacement]
            old, new = (f"{article(noun) if determiner in ARTICLES else determiner} {noun}".strip() for noun in nouns)
        corrections.append(Correction(exchange.replaced, exchange.replacement, old, new, exchange))
    return corrections


def _correctable(caption: Caption, index: int) -> bool:
    """Whether ", not a dog" may follow a word: a participle, or a noun in lower case that ends its phrase.

    Not a subject, and not "camera", since people look at it and are seen by it.
    """
    token, following = caption.tokens[index], caption.word(index + 1)
    if not token.text.islower() or token.lower == "camera" or caption.text[token.end : token.end + 1] not in " .,":
        return False
    if token.tag == "VBG":
        before = caption.tokens[max(index - 1, 0)]
        compound = before.head == index and before.pos in ("NOUN", "PROPN", "ADJ") and before.dep != "nsubj"
        return not compound and following != "and"
    if token.tag not in ("NN", "NNS") or token.dep in ("nsubj", "nsubjpass", "ROOT", "conj", "appos"):
        return False
    return not caption.has(index, "conj", "cc", "appos", "case") and following not in ("of", "and")


def _not_after(caption: Caption, exchange: Candidate, words: str) -> Edit:
    """The edit that says after a word what is absent: ", not a dog", with a comma if the sentence goes on."""
    index = exchange.slots[0]
    end = caption.tokens[index].end
    goes_on = any(later.pos != "PUNCT" for later in caption.tokens[index + 1 : index + 2])
    return Edit(end, end, f", not {words}" + "," * goes_on)
