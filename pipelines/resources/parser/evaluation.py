"""Measure a trained pipeline: accuracy on a converted treebank, speed on captions, size on disk."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .tree import Tree, to_doc

if TYPE_CHECKING:
    from spacy.language import Language


def accuracy(nlp: "Language", trees: Iterable[Tree]) -> dict[str, float]:
    """Return tag accuracy, UAS and LAS in percent, given gold tokenization; UAS and LAS exclude punctuation."""
    from spacy.tokens import Doc
    from spacy.training import Example

    examples = []
    for tree in trees:
        reference = to_doc([tree], nlp.vocab)
        examples.append(Example(Doc(nlp.vocab, words=tree.forms, spaces=tree.spaces), reference))
    scores = nlp.evaluate(examples)
    return {name: round(100 * scores[key], 2) for name, key in (
        ("tag", "tag_acc"), ("uas", "dep_uas"), ("las", "dep_las"), ("pos", "pos_acc"),
    )}  # fmt: skip


def words_per_second(nlp: "Language", captions: list[str], repeats: int = 3) -> float:
    """Return the words per second of `nlp.pipe` over the captions in one process, the best of `repeats` runs."""
    best = 0.0
    for _ in range(repeats):
        start = time.perf_counter()
        words = sum(len(doc) for doc in nlp.pipe(captions))
        best = max(best, words / (time.perf_counter() - start))
    return round(best, 0)


def component_shares(nlp: "Language", captions: list[str]) -> dict[str, float]:
    """Return, by component (with the tokenizer), its share in percent of the time to parse the captions."""
    start = time.perf_counter()
    tokenizer: Any = nlp.tokenizer
    docs = list(tokenizer.pipe(captions))
    seconds = {"tokenizer": time.perf_counter() - start}
    components: list[tuple[str, Any]] = list(nlp.pipeline)
    for name, component in components:
        start = time.perf_counter()
        docs = list(component.pipe(docs, batch_size=nlp.batch_size))
        seconds[name] = time.perf_counter() - start
    total = sum(seconds.values())
    return {name: round(100 * value / total, 1) for name, value in seconds.items()}


def megabytes(folder: Path) -> float:
    """Return the size of all files below a folder, in MB (10^6 bytes)."""
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 2)
