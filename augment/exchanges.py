"""Find all possible exchanges of one word for another in captions: the data that balance factors are fitted on.

See negcap.augment.lexicon.lexicon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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
    rows: dict[str, list[tuple[int, int, np.ndarray, np.ndarray]]] = {kind: [] for kind in kinds}
    every = (context for batch in batches(images) for context in contexts(batch, lexicon, truth))
    for row, context in enumerate(every):
        for kind in kinds:
            number = lexicon.entries(kind).number
            for choice in CHOICES[kind](context.caption, context):
                weights = choice.weights.copy()
                weights[_rejected(kind, choice, context)] = 0.0
                (new,) = weights.nonzero()
                if len(new) and choice.entry in number:
                    offset = len(number) * choice.plural
                    rows[kind].append((row, number[choice.entry] + offset, new + offset, weights[new]))
    return {kind: _columns(parts) for kind, parts in rows.items()}


def _rejected(kind: str, choice: Choice, context: Context) -> np.ndarray | list[int]:
    """The numbers of the entries that would be rejected in a slot.

    For nouns, those that leave a pronoun without an antecedent are not among them.
    """
    if kind == "noun":
        coreferent = context.coreferent_in_caption.all | context.coreferent_in_siblings.all
        numbers = entry_numbers(coreferent)
        return numbers if context.image is None else np.concatenate([numbers, context.image.likely_nouns])
    rejected = []
    for number in choice.weights.nonzero()[0].tolist():
        candidate = choice.candidate(choice.names[number])
        if candidate is None or assess(candidate, context.caption, context, context.image)[0] is not None:
            rejected.append(number)
    return rejected


def _columns(parts: Sequence[tuple[int, int, np.ndarray, np.ndarray]]) -> Exchanges:
    """Exchanges from (caption, replaced entry, replacing entries, their weights), one tuple per slot."""
    rows, olds, news, weights = zip(*parts, strict=True) if parts else ((), (), (), ())
    lengths = [len(new) for new in news]
    return Exchanges(
        np.repeat(np.array(rows, np.int32), lengths),
        np.repeat(np.array(olds, np.int32), lengths),
        np.concatenate([*news, np.zeros(0)]).astype(np.int32),
        np.concatenate([*weights, np.zeros(0)]),
    )
