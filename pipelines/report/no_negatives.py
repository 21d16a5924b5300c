"""Why a build made no negatives, and what helps, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FEW_ENTRIES = 100  # a lexicon with fewer entries leaves most captions without a replacement
# The lowest share of English words in captions that are taken for English. WordNet, which lacks words such as "the"
# and "with", knows two thirds of the words of English captions.
ENGLISH = 0.5


def explain_no_negatives(parses: pa.Table, entries: int, refused: Mapping[str, int], operators: Sequence[str]) -> str:
    """The most likely reason why these captions have no negatives, and what helps, in one line.

    parses: the captions, parsed. entries: how many words the lexicon has. refused: the number of rejected candidates by
    reason. operators: the names of the operators that were run.
    """
    if not parses.num_rows:
        return "no negatives: none of the captions is in English (captions of other languages are kept, not changed)"
    if refused:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(refused.items(), key=lambda one: (-one[1], one)))
        return f"no negatives: all {sum(refused.values()):,} candidates were rejected, see the rejections ({reasons})"
    known, words = _known_words(parses)
    if known < ENGLISH * words:
        return f"no negatives: only {known} of {words} words are English words, and captions must be in English"
    if entries < FEW_ENTRIES:
        return f"no negatives: the lexicon has only {entries} words; lexicon auto adds those of the reference lexicon"
    first = parses["text"][0].as_py()
    return (
        f"no negatives: {', '.join(operators)} found nothing to change; captions must say what is in an image, "
        f'such as "Two dogs run on a beach.", but the first is "{first}"'
    )


def _known_words(parses: pa.Table) -> tuple[int, int]:
    """The number of distinct words in the captions that WordNet knows, and the number of all."""
    from ...augment.language.wordnet import WordNet

    lemmas = {token["lemma"].lower() for tokens in parses["tokens"].to_pylist() for token in tokens}
    words = [lemma for lemma in lemmas if lemma.isalpha()]
    wordnet = WordNet.load()
    return sum(any(wordnet.senses(word, pos) for pos in "nvar") for word in words), len(words)
