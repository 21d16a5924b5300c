"""UniVSE's attacks as its paper makes them: drawn uniformly, false only in that no caption of the image says so.

For tables that are to be compared with the paper's (Wu et al. 2019, Table 2 and supplement B.2). The operators without
`uniform_` make negatives that are harder to tell without the image.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ..caption import Caption
from ..context import Context
from ..edits import Candidate, Edit, cased
from ..language.grammar import article, article_before, with_article
from ..language.semantic_classes import attributes
from ..language.wordnet import first_sense
from ..lexicon.lexicon import Lexicon
from ..scene_graph import scene_graph
from ..slots.nouns import attribute_slots, noun_slots
from ..slots.verbs import preposition_uses, verb_slots
from .attribute import attribute_candidate
from .uniform_vse_c import frequent, noun_candidate, preposition_candidate
from .verb import verb_candidate


def uniform_object(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a noun by any noun that no caption of the image mentions, or append one, with equal chance.

    "a dog on a couch" -> "a dog on a wave" or "a dog and a wave on a couch". Yields at most `draws` candidates.
    """
    roots = [slot.root for slot in noun_slots(caption)]
    names = _not_said(context)
    if not roots or not names:
        return
    for _ in range(draws):
        index, name = rng.choice(roots), rng.choice(names)
        if rng.random() < 0.5:
            yield noun_candidate(caption, context.lexicon, index, name)
        else:
            yield _appended(caption, context.lexicon, index, "and", name)


def uniform_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace an attribute by any of the paper's 37 outside its group; if there is none, add one to a noun.

    "a red car" -> "a snowy car"; "a car" -> "a snowy car". Not those that a caption of the image mentions. Yields at
    most `draws` candidates.
    """
    table = attributes()
    said = {word for word, _ in context.own.attributes | context.siblings.attributes}
    pairs = [
        (slot, name)
        for slot in attribute_slots(caption)
        for name in table.univse
        if name not in said and name != slot.entry and (name, slot.entry) not in table.univse_groups
    ]
    if pairs:
        for slot, name in rng.sample(pairs, min(draws, len(pairs))):
            yield attribute_candidate(caption, slot, name)
        return
    added = [(slot, name) for slot in noun_slots(caption) for name in table.univse if name not in said]
    for noun, name in rng.sample(added, min(draws, len(added))):
        first = caption.tokens[noun.start]
        edit = Edit(first.start, first.start, f"{name} ")
        if noun.start == 0:
            edit = Edit(first.start, first.end, f"{cased(name, first.text, caption.casing, first=True)} {first.lower}")
        edits = with_article(article_before(caption, noun.start), edit, name)
        yield Candidate("attribute", edits, (noun.root, noun.root), "", name)


def uniform_relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple by any other of the lexicon.

    "a dog chases a cat" -> "a wave chases a cat", "a dog wears a cat" or "a dog chases a wave". In a caption without
    relations a relation is added: "a dog" -> "a dog on a wave". Yields at most `draws` candidates.
    """
    lexicon, graph, names = context.lexicon, scene_graph(caption), _not_said(context)
    words = {index for triple in graph.relations for index in triple.tokens}
    said = {entry for entry, _ in context.own.relations | context.siblings.relations}
    over = [name for name in frequent(lexicon.prepositions, lexicon) if name not in said]
    acts = [name for name in lexicon.verbs.names if name not in context.own.verbs | context.siblings.verbs]
    ends = [index for triple in graph.relations for index in (triple.subject, triple.object)]
    ends = [index for index in ends if caption.tokens[index].tag in ("NN", "NNS")]
    uses = [use for use in preposition_uses(caption) if use.start in words]
    verbs = [slot for slot in verb_slots(caption) if slot.index in words]
    alone = [slot.root for slot in noun_slots(caption)] if not graph.relations else []
    parts = [name for name, here in (("end", ends), ("over", uses), ("act", verbs), ("alone", alone)) if here]
    for _ in range(draws if parts else 0):
        made: Candidate | None = None
        part = rng.choice(parts)
        if part == "end" and names:
            made = noun_candidate(caption, lexicon, rng.choice(ends), rng.choice(names))
        elif part == "over" and over:
            use = rng.choice(uses)
            made = preposition_candidate(caption, use.start, use.end, use.entry, rng.choice(over))
        elif part == "act" and acts:
            made = verb_candidate(caption, context, rng.choice(verbs), rng.choice(acts))
        elif part == "alone" and over and names:
            made = _appended(caption, lexicon, rng.choice(alone), rng.choice(over), rng.choice(names))
        if made is not None:
            yield made


def _not_said(context: Context) -> list[str]:
    """The single-word nouns of the lexicon that no caption of the image mentions."""
    said = context.own.nouns | context.siblings.nouns
    return [name for name in context.lexicon.nouns.names if " " not in name and name not in said]


def _appended(caption: Caption, lexicon: Lexicon, index: int, word: str, name: str) -> Candidate:
    """The candidate with "and a NAME" or "on a NAME" behind token `index`; in the plural after a plural."""
    token = caption.tokens[index]
    many = token.tag == "NNS"
    surface = lexicon.in_number(name, many=many)
    phrase = surface if many else f"{article(surface)} {surface}"
    edit = Edit(token.end, token.end, f" {word} {phrase}")
    return Candidate("noun", (edit,), (index,), "", name, None, first_sense(name))
