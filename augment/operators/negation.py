"""Negation: pairs of a true and a false sentence about two nouns, one that the image shows and one that it does not.

For "a man with a hat", whose image shows no helmet:

| | true | false |
|---|---|---|
| affirmative | a man with a hat | a man with a helmet |
| negative | a man without a helmet | a man without a hat |
| both | a man with a hat but no helmet | a man with a helmet but no hat |

So words of negation stand in true sentences as well as in false ones, and tell nothing (NegBench, Alhamoud et al. 2025,
asks such sentences as multiple choice). A caption without a noun that can be negated is corrected: "on a table, not a
bench" and "is standing, not sitting".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..candidates import FREE, Batch
from ..caption import Caption, cached, cached_on_context, read_only
from ..edits import Edit, cased
from ..evidence import Evidence
from ..language.coreference import may_corefer
from ..language.grammar import ARTICLES, indefinite_article
from ..language.semantic_classes import head_word, may_support_both
from ..language.wordnet import first_sense
from ..lexicon.lexicon import Lexicon
from ..reproducible import exp, hash_keys
from ..rows import BOTH, NO, Row
from ..sampling import Sampler, exponentials, name_keys, order_keys, uniforms
from ..slots.nouns import Slot, noun_slots
from ..truth.contradiction import Violation
from .negation_sites import FRAMES, NOUNS, Site, added_sites, denied_statements, noun_sites, shown_nouns
from .noun import replace_noun
from .operator import ListedRows, ListingOperator, Source, Traits
from .replacement import ReplacingOperator

# How many contrasts of a caption are drawn: enough for the operators' quotas, although some are refused.
CONTRASTS = 8
MIN_ODDS = -2.0  # the lowest log-odds of an absent noun to the noun that a caption has in its place, in nats
# How much the log-odds of the present and the absent noun, given the caption, may differ, in nats.
MAX_DIFFERENCE = 1.5
# The log-odds of a noun, given a caption, above which the caption implies it: "a surfer with no surfboard".
IMPLIED = 0.0
# The log-odds of a noun, given a caption, above which its scene may well have the noun, although no caption says so:
# "there is a train in the picture" is false of a kitchen, and not of a street.
MAX_EXPECTED = -6.5
RARE = -4.0  # the log-odds of a noun, given a caption, below which nobody would think of negating it
CORRECTIONS = 24  # how many corrections of a caption are drawn, most of which are too unlikely
MIN_CORRECTION = -2.0  # the lowest log-odds of a correction's word to the caption's
# Captions without a noun that can be negated get a correction ("…, not a bench") or a sentence about what is in the
# picture. The share of corrections among the first of these sentences: readers call half of the corrections odd, and
# none of the other sentences.
OF_CORRECTIONS = 0.35


class Negation(ListingOperator):
    """False sentences: negate what is present, assert what is absent, or both ("with a helmet but no hat").

    A caption that has a negation is contradicted: "a man without a hat" -> "a man with a hat". In a row, `replaced` is
    what is true and `replacement` what the negative says; "not " precedes what either negates, and "no " what the
    caption itself negates.

    If all these are refused, the caption is corrected: "on a bench" becomes "on a table, not a bench", "is sitting" "is
    standing, not sitting"; or it gives way to a sentence about what is present, as in VALSE: "There are no dogs in the
    picture".
    """

    def __init__(self, name: str, traits: Traits, replacers: Mapping[str, ReplacingOperator]) -> None:
        """Keep the operators that replace nouns and verbs, by kind: they say which words may stand in a slot."""
        super().__init__(name, traits)
        self.replacers = replacers

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        """List the false sentences about one caption, in the order in which they are taken.

        First those that contradict a negation of the caption: "a man without a hat" -> "a man with a hat". Then those
        about a noun that the image shows and one that it does not, best contrasts first (`_false_rows`). A caption with
        a negation has none of the second sort.
        """
        caption = evidence.caption
        contradicted = [
            Row(
                # No kind of change: no other word has to be checked for being true, since the caption denies this one.
                change="none",
                edits=(statement.edit,),
                tokens=(statement.token,),
                replaced=statement.denied,
                replacement=statement.asserted,
                replaced_synset=None,
                replacement_synset=first_sense(statement.asserted),
                asserts_denied=True,
            )
            for statement in denied_statements(caption)
        ]
        pairs = contrasts(evidence, batch.lexicon, self.replacers["noun"])
        return [*contradicted, *_false_rows(evidence, batch.lexicon, pairs, seed, self.name)]

    def fallback_rows(self, batch: Batch, captions: Sequence[int], seed: int) -> Source:
        """List corrections, and sentences that say only what is present, of captions that have no other negation.

        captions: their numbers in the batch; the other captions get no rows.
        """
        of_caption: list[list[Row]] = [[] for _ in batch.evidence]
        for number, corrections in corrections_of(batch, captions, self.replacers).items():
            evidence = batch.evidence[number]
            existence = existence_contrasts(evidence, batch.lexicon, bool(corrections))
            corrected = [_corrected(evidence.caption, correction) for correction in corrections]
            existence_rows = _false_rows(evidence, batch.lexicon, existence, seed, self.name)
            # By chance, so that both sorts are among the negatives: of most captions only the first rows are taken.
            is_correction_first = _random_number(seed, self.name, evidence.caption, "correction") < OF_CORRECTIONS
            of_caption[number] = [*corrected, *existence_rows] if is_correction_first else [*existence_rows, *corrected]
        return ListedRows(of_caption)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the noun or verb that the negation takes to be absent may be in the image; None if nothing tells."""
        assertion = row.assertion
        if assertion is None:
            return None
        return self.replacers[assertion.change].violation(assertion, evidence, lexicon)


class TrueNegation(Negation):
    """True sentences beside those of `negation`, about the same nouns in the same places.

    They negate what is absent, also beside what is present ("with a hat but no helmet"), and assert what only a sibling
    caption mentions. `replaced` is the caption's noun; `replacement` is what the sentence says, and the same text is
    `replaced` in the row of `negation` that contradicts it.
    """

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        """List the true sentences about the contrasts of one caption, in the order in which they are taken."""
        pairs = contrasts(evidence, batch.lexicon, self.replacers["noun"])
        return _true_rows(evidence.caption, batch.lexicon, pairs)

    def fallback_rows(self, batch: Batch, captions: Sequence[int], seed: int) -> Source:
        """List the true sentences about the same words as those of `negation`: "on a bench, not a table".

        captions: the numbers of those that have no other negation.
        """
        of_caption: list[list[Row]] = [[] for _ in batch.evidence]
        for number, corrections in corrections_of(batch, captions, self.replacers).items():
            evidence = batch.evidence[number]
            corrected = [
                correction.row(
                    edits=(_append_not(evidence.caption, correction.exchange, correction.new),),
                    replaced=correction.present,
                    replacement=_statement(correction.present, correction.absent),
                )
                for correction in corrections
            ]
            existence = existence_contrasts(evidence, batch.lexicon, bool(corrections))
            of_caption[number] = [*corrected, *_true_rows(evidence.caption, batch.lexicon, existence)]
        return ListedRows(of_caption)


def _random_number(seed: int, operator: str, caption: Caption, name: str) -> float:
    """A random number from 0 to 1, by the seed, the operator, the caption and the name of what is decided."""
    return float(uniforms(seed, operator, [caption.caption_id], np.zeros(1, int), hash_keys([name]))[0])


def _corrected(caption: Caption, correction: Correction) -> Row:
    """The false sentence that corrects a caption: "on a table, not a bench"."""
    edits = sorted([*correction.exchange.edits, _append_not(caption, correction.exchange, correction.old)])
    return correction.row(
        edits=tuple(edits),
        replaced=_statement(correction.present, correction.absent),
        replacement=_statement(correction.absent, correction.present),
    )


def _statement(asserted: str, negated: str) -> str:
    """What a row records of a sentence that asserts one noun and negates another: "hat | not dog"."""
    return asserted + BOTH + NO + negated


class WeightedSite(NamedTuple):
    """A site, a noun that the image shows there, whether it is in the plural, and what may be absent instead.

    weights: the chance of each noun of the lexicon to be the absent one, not normalised, (entries,).
    """

    site: Site
    present: str
    plural: bool
    weights: np.ndarray


class Contrast(NamedTuple):
    """A site of a caption, a noun that the image shows there, and one that it does not; plural: of both nouns."""

    site: Site
    present: str
    absent: str
    plural: bool

    def row(self, edits: tuple[Edit, ...], replaced: str, replacement: str) -> Row:
        """The row that says something else of the two nouns than the caption.

        Args:
            edits: what turns the caption into the sentence.
            replaced: what is so in the caption's place, written as a statement, see below.
            replacement: what the sentence says, written so, too.

        A statement is "hat" (there is a hat), "not dog" (there is no dog), or both of them: "hat | not dog". It is ""
        where the caption says nothing of it.
        """
        # The senses are of the nouns that are asserted, or else negated: "hat | not dog" -> "hat", "not dog" -> "dog".
        old, new = (statement.partition(BOTH)[0].removeprefix(NO) for statement in (replaced, replacement))
        # `absent` is the noun that the image is taken not to show: `Negation.violation` looks whether it may after all.
        return Row(
            change="negated_noun",
            edits=edits,
            tokens=(self.site.index,),
            replaced=replaced,
            replacement=replacement,
            replaced_synset=first_sense(old) if old else None,
            replacement_synset=first_sense(new) if new else None,
            absent=self.absent,
        )


@cached_on_context
def contrasts(evidence: Evidence, lexicon: Lexicon, replacer: ReplacingOperator) -> list[Contrast]:
    """Sample contrasts of a caption, in random order; `negation` and `true_negation` get the same, whatever the seed.

    The absent noun is drawn from those that the caption lets expect about as much as the one that is present.
    replacer: the operator that replaces nouns.
    """
    # First the nouns of the caption itself, then those that only siblings have, for which words are added.
    weighted = []
    for site in noun_sites(evidence.caption):
        if site.slot is not None:
            weights = _weights_at_noun(evidence, lexicon, site, site.slot, replacer)
            weighted.append(WeightedSite(site, site.slot.entry, site.slot.plural, weights))
    for frame, site in added_sites(evidence.caption).items():
        if frame != "exists":
            weighted += _sites_for_nouns_of_siblings(evidence, lexicon, site)
    return _sample_contrasts("contrasts", evidence.caption, lexicon, weighted)


def existence_contrasts(evidence: Evidence, lexicon: Lexicon, has_corrections: bool) -> list[Contrast]:
    """Sample contrasts for sentences that say only what is in the picture: "There are no dogs in the picture".

    The thing that is present is mentioned by a caption of the image. The absent one is about as frequent in captions,
    and not to be expected in the scene. If there is no such thing, and nothing to correct either, persons are taken:
    "There are no actors in the picture".

    Args:
        evidence: of the caption.
        lexicon: its nouns may be absent.
        has_corrections: whether the caption has a correction.

    Returns:
        The contrasts in random order; none where no sentence may take the place of the caption.
    """
    caption = evidence.caption
    nouns = lexicon.nouns
    site = added_sites(caption).get("exists")
    if site is None:
        return []
    may_be_absent = _negatable_nouns(nouns.names, "exists")
    expected = None if evidence.image is None else evidence.image.expected_nouns(caption)
    if expected is not None:
        may_be_absent = may_be_absent & (expected <= MAX_EXPECTED)
    shown = _shown_by_siblings(evidence, "exists") | dict(sorted(shown_nouns(caption, "exists")))
    if not shown and not has_corrections:
        persons = sorted(shown_nouns(caption, "exists", persons=True))
        shown = {noun if noun in nouns.number else head_word(noun): plural for noun, plural in persons}
    log_frequency = nouns.priors[""]
    weighted = []
    for noun, plural in sorted(shown.items()):
        if noun in nouns.number and noun in lexicon.forms(many=plural):
            difference = np.abs(log_frequency - log_frequency[nouns.number[noun]])
            weights = np.where(may_be_absent & (difference <= MAX_DIFFERENCE), 1.0, 0.0)
            weighted.append(WeightedSite(site, noun, plural, _without_unfit(weights, lexicon, noun, many=plural)))
    return _sample_contrasts("existence", caption, lexicon, weighted)


def _sample_contrasts(
    stream: str, caption: Caption, lexicon: Lexicon, weighted: Sequence[WeightedSite]
) -> list[Contrast]:
    """Sample CONTRASTS contrasts of a caption by weight without replacement, whatever the seed.

    They are those with the lowest keys E / weight, where E is an exponential random number (negcap.augment.sampling),
    the lowest first.

    stream: names the random numbers. weighted: the sites, with the weights of the lexicon's nouns to be absent there.
    """
    sampled: list[tuple[float, Contrast]] = []
    names = lexicon.nouns.names
    for site, present, plural, weights in weighted:
        absent = np.flatnonzero(weights)
        # Several nouns that are present may share a site, so they are told apart by name. The seed is always 0: so
        # `negation` and `true_negation` have the same contrasts.
        site_stream = f"{stream} {site.frame} {present}"
        ids = [caption.caption_id] * len(absent)
        randoms = exponentials(0, site_stream, ids, np.full(len(absent), site.index), name_keys(names)[absent])
        keys = (randoms / weights[absent]).tolist()
        for key, number in zip(keys, absent.tolist(), strict=True):
            contrast = Contrast(site=site, present=present, absent=names[number], plural=plural)
            sampled.append((key, contrast))
    sampled.sort(key=lambda item: item[0])
    return [contrast for _, contrast in sampled[:CONTRASTS]]


def _without_unfit(weights: np.ndarray, lexicon: Lexicon, noun: str, *, many: bool) -> np.ndarray:
    """The weights of nouns to be the absent one beside `noun`: 0 for what may name the same thing, or lacks the form.

    weights: of each noun of the lexicon, (entries,). many: whether the form is the plural.
    """
    names = lexicon.nouns.names
    forms = lexicon.forms(many=many)
    fitting = weights.copy()
    fitting[lexicon.may_corefer(noun)] = 0.0
    fitting[[number for number in fitting.nonzero()[0] if names[number] not in forms]] = 0.0
    return fitting


def _weights_at_noun(
    evidence: Evidence, lexicon: Lexicon, site: Site, slot: Slot, replacer: ReplacingOperator
) -> np.ndarray:
    """The chance of each noun of the lexicon to be the absent one of a contrast: "helmet" beside the caption's "hat".

    site, slot: of the noun that the caption has. replacer: the operator that replaces nouns.

    Returns (entries,): weights that sum to 1, or all 0.
    """
    caption = evidence.caption
    nouns = lexicon.nouns
    weights = np.zeros(len(nouns.names))
    if slot.entry not in nouns.number or slot.form not in nouns.priors:
        return weights
    if any(may_corefer(slot.entry, other.entry) for other in noun_slots(caption) if other.noun != slot.noun):
        return weights  # "a dog jumps on another dog": with one of them negated, the other is still there
    table = replacer.propose([(0, slot)], [evidence], lexicon)
    is_negatable = _negatable_nouns(nouns.names, site.frame)[table.entry]
    # `table` has the candidates of this slot alone; so has the mask, and `table.entry` gives the noun of each.
    is_likely = (table.reason == FREE) & is_negatable & (table.log_odds >= MIN_ODDS)
    if caption.tokens[slot.noun].dep == "pobj":  # who stands "on a ladder" may stand "on a street"
        names = [nouns.names[entry] for entry in table.entry.tolist()]
        is_likely &= np.array([not may_support_both(slot.entry, name) for name in names], bool)
    weights[table.entry[is_likely]] = table.weight[is_likely]
    # If no other noun is likely at this position ("a man near a lake"), take those that are usual in such scenes.
    if site.frame == "near" and not weights.any() and evidence.image is not None:
        expected = evidence.image.expected_nouns(caption)
        if expected is not None:
            weights = _weights_as_expected(lexicon, expected, slot.entry, site.frame, plural=slot.plural)
    return _scaled_to_one(weights)


def _sites_for_nouns_of_siblings(evidence: Evidence, lexicon: Lexicon, site: Site) -> Iterator[WeightedSite]:
    """A site where words are added, once for each noun that only sibling captions mention as present there."""
    expected = None if evidence.image is None else evidence.image.expected_nouns(evidence.caption)
    if expected is None:
        return
    named_by_caption = lexicon.coreference.with_any(evidence.caption_mentions["noun"])
    for noun, plural in sorted(_shown_by_siblings(evidence, site.frame).items()):
        entry = lexicon.nouns.number.get(noun)
        if entry is None or expected[entry] > IMPLIED or named_by_caption.reason(entry) is not None:
            continue
        weights = _weights_as_expected(lexicon, expected, noun, site.frame, plural=plural)
        yield WeightedSite(site, noun, plural, _scaled_to_one(weights))


def _shown_by_siblings(evidence: Evidence, frame: str) -> dict[str, bool]:
    """The nouns of sibling captions that a frame can negate, and whether one has it in the plural: {"hat": False}."""
    shown: dict[str, bool] = {}
    for sibling in evidence.siblings:
        for noun, plural in shown_nouns(sibling, frame):
            shown[noun] = shown.get(noun, False) or plural
    return shown


def _weights_as_expected(lexicon: Lexicon, expected: np.ndarray, noun: str, frame: str, *, plural: bool) -> np.ndarray:
    """The weight of each noun that may be negated in a frame and is expected about as much as `noun`: (entries,).

    expected: the log-odds that another caption mentions each noun, given this one, (entries,).
    """
    names = lexicon.nouns.names
    level = expected[lexicon.nouns.number[noun]]
    if noun not in lexicon.forms(many=plural) or level <= RARE:
        return np.zeros(len(names))
    difference = np.abs(expected - level)
    is_possible = _negatable_nouns(names, frame) & (expected > RARE) & (difference <= MAX_DIFFERENCE)
    return _without_unfit(np.where(is_possible, exp(-difference), 0.0), lexicon, noun, many=plural)


def _scaled_to_one(weights: np.ndarray) -> np.ndarray:
    """Weights that sum to 1; zeros as they are."""
    total = weights.sum()
    return weights / total if total > 0 else weights


@cached(64)
def _negatable_nouns(names: tuple[str, ...], frame: str) -> np.ndarray:
    """A mask of the nouns that may be negated in a frame: (entries,), read-only."""
    nouns = FRAMES[frame].nouns
    return read_only(np.array([name in nouns for name in names], bool))


def _false_rows(evidence: Evidence, lexicon: Lexicon, pairs: Sequence[Contrast], seed: int, operator: str) -> list[Row]:
    """List the false sentences about each contrast; those about one contrast are in random order.

    There are up to three: the noun that is present is negated ("no hat"), the absent one is asserted ("a helmet"), or
    both ("a helmet but no hat").
    """
    caption = evidence.caption
    rows = []
    for number, contrast in enumerate(pairs):
        site, present, absent, _ = contrast
        negation = site.negate(**_words_of_frame(caption, lexicon, contrast, present))
        of_contrast = [contrast.row((negation,), replaced=present, replacement=NO + present)]
        # In the frame "exists" ("there is a helmet in the picture") any noun may be the absent one. Whether the picture
        # has it is known only by the estimates of `evidence.image`: without them it is not asserted.
        is_absence_known = site.frame != "exists" or evidence.image is not None
        if is_absence_known:
            edits = _edits_that_assert(caption, lexicon, contrast, absent)
            of_contrast.append(contrast.row(edits, replaced=NO + absent, replacement=absent))
            edit = _edit_with_both(caption, lexicon, contrast, asserted=absent, negated=present)
            if edit is not None:
                of_contrast.append(contrast.row((edit,), _statement(present, absent), _statement(absent, present)))
        # In random order, so that the few rows that are taken are not all of one form.
        names = [f"{number} {row.replacement}" for row in of_contrast]
        keys = order_keys(seed, operator, caption.caption_id, names)
        rows += [of_contrast[i] for i in np.argsort(keys).tolist()]
    return rows


def _true_rows(caption: Caption, lexicon: Lexicon, pairs: Sequence[Contrast]) -> list[Row]:
    """List the true sentences about each contrast, of which the site decides what fits.

    The absent noun is negated ("no helmet"), also beside the present one ("a hat but no helmet"); and where the caption
    does not have the present noun, this is asserted alone ("a hat").
    """
    rows = []
    for contrast in pairs:
        site, present, absent, _ = contrast
        replaced = "" if site.slot is None else present  # "": the caption says nothing there
        words = _words_of_frame(caption, lexicon, contrast, absent)
        rows.append(contrast.row((site.negate(**words),), replaced, NO + absent))
        if edit := _edit_with_both(caption, lexicon, contrast, asserted=present, negated=absent):
            rows.append(contrast.row((edit,), replaced, _statement(present, absent)))
        if site.slot is None:
            rows.append(contrast.row(_edits_that_assert(caption, lexicon, contrast, present), replaced, present))
    return rows


def _words_of_frame(caption: Caption, lexicon: Lexicon, contrast: Contrast, noun: str) -> dict[str, str]:
    """What stands in place of the braces of data/negation.toml, by name: {"a": "a hat", "no": "hat", "be": "is", …}.

    "a": the noun with its article; "no": the noun as it follows "no"; "be" and "be_no": the "is" or "are" that agrees
    with either.
    """
    surface = lexicon.in_number(noun, many=contrast.plural)
    behind_no = surface
    if FRAMES[contrast.site.frame].plural:  # frames that want a plural there: "with no dogs nearby"
        behind_no = lexicon.in_number(noun, many=noun not in NOUNS["one"] and noun in lexicon.plural)
    is_bare = contrast.plural or noun in NOUNS["mass"]
    written = cased(surface, surface, caption.casing)  # "Christmas tree"
    return {
        "a": written if is_bare else f"{indefinite_article(surface)} {written}",
        "no": cased(behind_no, behind_no, caption.casing),
        "be": "are" if contrast.plural else "is",
        "be_no": "is" if behind_no == lexicon.singular.get(noun) else "are",
    }


def _edit_with_both(caption: Caption, lexicon: Lexicon, contrast: Contrast, asserted: str, negated: str) -> Edit | None:
    """The edit that asserts one noun and negates the other ("with a helmet but no hat"); None if the frame has none.

    The wording is "with {a} {and} no {no}": {a} is the asserted noun with its article, {no} the negated one. Either may
    be the one that the image shows.
    """
    site = contrast.site
    wording = FRAMES[site.frame].both
    if wording is None:
        return None
    words = _words_of_frame(caption, lexicon, contrast, asserted)
    if site.slot is not None:  # the adjectives of the caption's noun stay
        first = caption.tokens[caption.phrase_start(site.slot.noun)]
        before_noun = caption.text[first.start : caption.tokens[site.slot.start].start]
        if before_noun.lower() == "the ":
            before_noun = "a "  # "with the ball" -> "with a stick but no ball"
        if before_noun.strip() not in ARTICLES:
            words["a"] = before_noun + lexicon.in_number(asserted, many=contrast.plural)
    return site.edit(wording, words | {"no": _words_of_frame(caption, lexicon, contrast, negated)["no"]})


def _edits_that_assert(caption: Caption, lexicon: Lexicon, contrast: Contrast, noun: str) -> tuple[Edit, ...]:
    """The edits that assert a noun at the site of a contrast: in place of the caption's noun, or in words added."""
    if contrast.site.slot is not None:
        return replace_noun(caption, contrast.site.slot, noun, lexicon).edits
    wording = FRAMES[contrast.site.frame].asserted
    assert wording is not None  # frames that add words assert a noun, too
    return (contrast.site.edit(wording, _words_of_frame(caption, lexicon, contrast, noun)),)


class Correction(NamedTuple):
    """A noun or verb of a caption, and one that would be false in its place.

    present, absent: both as entries of the lexicon.
    old, new: as written, with the article.
    exchange: the row that replaces the one by the other.
    """

    present: str
    absent: str
    old: str
    new: str
    exchange: Row

    def row(self, edits: tuple[Edit, ...], replaced: str, replacement: str) -> Row:
        """The row of a sentence that corrects the caption, made of the row that only exchanges its word.

        Args:
            edits: what turns the caption into the sentence.
            replaced: what is true, such as "bench", or "bench | not table": a bench and no table.
            replacement: what the sentence says, written so, too.
        """
        # `exchange` puts the absent word in place of the caption's. The tokens and senses hold for the correction as
        # well; its plausibility and ratings do not, since the sentence is another one: it is read and rated anew.
        # `absent` is the word that the image is taken not to show, whichever of the two the sentence asserts.
        return replace(
            self.exchange,
            change="negated_verb" if self.exchange.change == "verb" else "negated_noun",
            edits=edits,
            replaced=replaced,
            replacement=replacement,
            plausibility=None,
            p_unnatural=None,
            p_compatible=None,
            absent=self.absent,
        )


def corrections_of(
    batch: Batch, captions: Sequence[int], replacers: Mapping[str, ReplacingOperator]
) -> dict[int, list[Correction]]:
    """Sample corrections of the nouns and participles of some captions, in random order.

    A correction says what is not there behind what is: "a cat, not a dog, on a mat". `negation` and `true_negation` get
    the same ones, whatever the seed, so that their sentences are about the same words.

    Args:
        batch: the captions and all candidates for their words.
        captions: the numbers of the captions in the batch.
        replacers: the operators that replace nouns and verbs, by kind.

    Returns:
        The corrections of each of these captions, by its number; none for one that has a negation.
    """
    table = batch.candidates
    # The candidates are those of the operators that replace nouns and verbs, where ", not a dog" may follow the word.
    is_slot_correctable = [
        number in captions and _is_correctable(batch.evidence[number].caption, slot.noun)
        for number, slot in zip(table.caption.tolist(), table.slots, strict=True)
    ]
    candidates = table.of_kinds(list(replacers))
    candidates = candidates[np.array(is_slot_correctable, bool)[table.slot[candidates]]]
    sampler = Sampler(batch, candidates, table.weight[candidates], 0, "corrections")  # 0: whatever the run's seed
    affirmative = [number for number in captions if not denied_statements(batch.evidence[number].caption)]
    sampled = sampler.take(dict.fromkeys(affirmative, CORRECTIONS))
    corrections: dict[int, list[Correction]] = {number: [] for number in captions}
    for number, chosen in sampled.items():
        evidence = batch.evidence[number]
        for candidate in chosen:
            slot = table.slots[table.slot[candidate]]
            new = batch.lexicon.entries(slot.kind).names[table.entry[candidate]]
            exchange = replacers[slot.kind].edit(slot, new, evidence, batch.lexicon)
            if exchange is not None and table.log_odds[candidate] >= MIN_CORRECTION:
                corrections[number].append(_correction(evidence.caption, exchange, batch.lexicon))
    return corrections


def _correction(caption: Caption, exchange: Row, lexicon: Lexicon) -> Correction:
    """The words of "a bench, not a table" or "a table, not a bench", from a row that replaces a noun or a verb.

    `old` are those of the caption, "a bench" or "standing"; `new` are those of the row, "a table" or "sitting".
    """
    index = exchange.tokens[0]
    if exchange.change == "verb":
        old = caption.lowered[index]
        new = exchange.edits[0].new.lower()
    else:
        slot = next(slot for slot in noun_slots(caption) if slot.noun == index)
        first = caption.tokens[caption.phrase_start(index)]
        determiner = first.lower if first.dep == "poss" or first.lower in (*ARTICLES, "the") else ""

        def with_determiner(noun: str) -> str:
            """A noun behind the determiner of the caption's, where "a" and "an" follow the sound: "an old dog"."""
            word = indefinite_article(noun) if determiner in ARTICLES else determiner
            return f"{word} {noun}".strip()

        old = with_determiner(caption.span(slot.start, slot.end).lower())
        new = with_determiner(lexicon.forms(many=slot.plural)[exchange.replacement])
    return Correction(present=exchange.replaced, absent=exchange.replacement, old=old, new=new, exchange=exchange)


def _is_correctable(caption: Caption, index: int) -> bool:
    """Whether ", not a dog" may follow a word: a participle, or a noun in lower case that ends its phrase.

    Not a subject, and not "camera", since people look at it and are seen by it.
    """
    token = caption.tokens[index]
    following = caption.word(index + 1)
    is_whole_word = caption.text[token.end : token.end + 1] in ("", " ", ".", ",")  # no hyphen follows, as in "t-shirt"
    if not token.text.islower() or token.lower == "camera" or not is_whole_word:
        return False
    if token.tag == "VBG":
        before = caption.tokens[max(index - 1, 0)]
        is_compound = before.head == index and before.pos in ("NOUN", "PROPN", "ADJ") and before.dep != "nsubj"
        return not is_compound and following != "and"  # "mountain biking"
    if token.tag not in ("NN", "NNS") or token.dep in ("nsubj", "nsubjpass", "ROOT", "conj", "appos"):
        return False
    return not caption.has_dependent(index, "conj", "cc", "appos", "case") and following not in ("of", "and")


def _append_not(caption: Caption, exchange: Row, words: str) -> Edit:
    """The edit that puts ", not" and some words behind the word that an exchange replaces.

    words: "a dog": "a cat on a mat" -> "a cat, not a dog, on a mat"; no second comma at the end of the sentence.
    """
    index = exchange.tokens[0]  # "cat"
    end = caption.tokens[index].end
    following = caption.tokens[index + 1 : index + 2]  # no token if the caption ends here
    needs_comma = any(token.pos != "PUNCT" for token in following)
    return Edit(end, end, f", not {words}," if needs_comma else f", not {words}")
