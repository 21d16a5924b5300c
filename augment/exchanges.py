"""Find all possible exchanges of one word for another in captions: the data that balance factors are fitted on.

See negcap.augment.lexicon.lexicon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from .caption import Caption
from .context import Context, batches, contexts
from .language.coreference import entry_numbers
from .lexicon.lexicon import Exchanges, Lexicon
from .operators.attribute import attribute_choices
from .operators.choices import Choice
from .operators.noun import noun_choices
from .operators.numeral import numeral_choices
from .operators.preposition import preposition_choices
from .operators.verb import verb_choices
from .truth.contradiction import assess
from .truth.estimates import Truth

# For each kind, a function that lists what may replace the words of a caption.
CHOICES: dict[str, Callable[[Caption, Context], list[Choice]]] = {
    "noun": noun_choices,
    "numeral": numeral_choices,
    "preposition": preposition_choices,
    "attribute": attribute_choices,
    "verb": verb_choices,
}
BALANCED = tuple(CHOICES)


def exchanges(
    images: Iterable[Sequence[Caption]], lexicon: Lexicon, truth: Truth | None = None, kinds: Sequence[str] = BALANCED
) -> dict[str, Exchanges]:
    """All exchanges of entries in all captions of some images, by kind, weighted by an unbalanced lexicon.

    Exchanges that would be rejected as negatives are left out; with `truth`, also those that are too likely true.
    Raises ValueError for a kind that is not in BALANCED.
    """
    for kind in kinds:
        if kind not in BALANCED:
            raise ValueError(f"kind must be one of {', '.join(BALANCED)}, was: {kind}")
    found: dict[str, list[tuple[int, int, np.ndarray, np.ndarray]]] = {kind: [] for kind in kinds}
    every = (context for batch in batches(images) for context in contexts(batch, lexicon, truth))
    for row, context in enumerate(every):
        for kind, rows in found.items():
            number = lexicon.entries(kind).number
            for entry, plural, weights in _nouns(context) if kind == "noun" else _others(kind, context):
                (new,) = weights.nonzero()
                if len(new) and entry in number:
                    offset = len(number) * plural
                    rows.append((row, number[entry] + offset, new + offset, weights[new]))
    return {kind: _columns(rows) for kind, rows in found.items()}


def _columns(parts: Sequence[tuple[int, int, np.ndarray, np.ndarray]]) -> Exchanges:
    """Exchanges from (caption, replaced entry, replacing entries, their weights), one tuple per slot."""
    lengths = [len(new) for _, _, new, _ in parts]
    return Exchanges(
        np.repeat(np.array([row for row, _, _, _ in parts], np.int32), lengths),
        np.repeat(np.array([old for _, old, _, _ in parts], np.int32), lengths),
        np.concatenate([new for _, _, new, _ in parts] or [np.zeros(0)]).astype(np.int32),
        np.concatenate([weight for _, _, _, weight in parts] or [np.zeros(0)]),
    )


def _nouns(context: Context) -> Iterator[tuple[str, bool, np.ndarray]]:
    """For each noun slot: its entry, whether it is plural, and the weights of the nouns that are not rejected,
    (entries,).

    Candidates that leave a pronoun without an antecedent are not excluded here.
    """
    rejected = entry_numbers(context.coreferent_in_caption.all | context.coreferent_in_siblings.all)
    for choice in noun_choices(context.caption, context):
        weights = choice.weights.copy()
        weights[rejected] = 0.0
        if context.image is not None:
            weights[context.image.likely_nouns] = 0.0
        yield choice.entry, choice.plural, weights


def _others(kind: str, context: Context) -> Iterator[tuple[str, bool, np.ndarray]]:
    """As `_nouns`, for the slots of another kind."""
    for choice in CHOICES[kind](context.caption, context):
        left = choice.weights.copy()
        for number in left.nonzero()[0].tolist():
            made = choice.candidate(choice.names[number])
            if made is None or assess(made, context.caption, context, context.image)[0] is not None:
                left[number] = 0.0
        yield choice.entry, choice.plural, left
