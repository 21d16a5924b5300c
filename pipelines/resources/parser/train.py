"""The training of one pipeline: tok2vec, tagger, parser, attribute_ruler, lemmatizer; standard spaCy parts
only."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from negcap.pipelines.resources.parser.attributes import attribute_patterns
from negcap.pipelines.resources.parser.augmentation import augment, fragments, joined
from negcap.pipelines.resources.parser.lemmas import lemma_tables
from negcap.pipelines.resources.parser.tree import Tree, to_doc

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example


@dataclass(frozen=True)
class TrainingConfig:
    """Sizes and schedule of one training run.

    `width` and `depth` are the tok2vec's, `rows` the size of its largest hash table, `hidden` the parser's;
    `learning_rate` falls linearly to a tenth; `batch_words` is the size of a batch once grown.
    """

    seed: int = 1
    width: int = 96
    depth: int = 4
    rows: int = 3000
    hidden: int = 64
    epochs: int = 14
    learning_rate: float = 0.001
    batch_words: int = 1000
    dropout: float = 0.1
    fragment_rate: float = 0.15


def build(config: TrainingConfig, trees: list[Tree]) -> "Language":
    """Return an untrained pipeline whose labels are those of `trees`."""
    import spacy
    from spacy.lookups import Lookups
    from spacy.training import Example
    from spacy.util import fix_random_seed

    fix_random_seed(config.seed)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": {
        "@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": config.width,
        "depth": config.depth, "embed_size": config.rows, "window_size": 1, "maxout_pieces": 3,
        "subword_features": True,
    }})  # fmt: skip
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": config.width, "upstream": "tok2vec"}
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}})
    nlp.add_pipe("parser", config={"model": {
        "@architectures": "spacy.TransitionBasedParser.v2", "state_type": "parser",
        "extra_state_tokens": False,
        "hidden_width": config.hidden, "maxout_pieces": 2, "use_upper": True, "tok2vec": listener,
    }})  # fmt: skip
    ruler: Any = nlp.add_pipe("attribute_ruler")
    lookups = Lookups()
    for name, table in lemma_tables().items():
        lookups.add_table(name, table)
    lemmatizer: Any = nlp.add_pipe("lemmatizer", config={"mode": "rule"})
    references = [to_doc([tree], nlp.vocab) for tree in trees]
    nlp.initialize(lambda: [Example(doc.copy(), doc) for doc in references])
    ruler.add_patterns(attribute_patterns())  # initialize() empties both tables
    lemmatizer.initialize(lookups=lookups)
    return nlp


def train(
    config: TrainingConfig,
    trees: list[Tree],
    captions: list[Tree],
    report: Callable[[str], None],
    more_captions: Callable[[Random], list[Tree]] | None = None,
) -> "Language":
    """Train a pipeline on treebank sentences and caption trees.

    Parameters
    ----------
    config
        Sizes, schedule and seed; the same seed and data give the same weights on the same machine.
    trees
        Treebank sentences: lower-cased, cut and turned into fragments anew in every epoch.
    captions
        Caption trees used as they are, but for case and full stop.
    report
        Called with one line an epoch.
    more_captions
        Called in every epoch for fresh caption trees (the grammar's).
    """
    import spacy

    rng = Random(config.seed)
    fresh = more_captions(Random(config.seed)) if more_captions else []
    nlp = build(config, trees + captions + fresh)
    optimizer: Any = nlp.create_optimizer()
    total, step = _estimate_steps(config, trees, captions + fresh), 0
    sizes = _batch_sizes(config.batch_words)
    for epoch in range(config.epochs):
        start, losses = time.perf_counter(), dict[str, float]()
        batches = _epoch(config, nlp, trees, captions + (more_captions(rng) if more_captions else []), rng)
        for examples in _batched(batches, sizes):
            share = min(step / total, 1.0)
            optimizer.learn_rate = config.learning_rate * (1.0 - 0.9 * share) * min(1.0, (step + 1) / 100)
            nlp.update(examples, sgd=optimizer, losses=losses, drop=config.dropout)
            step += 1
        seconds = time.perf_counter() - start
        shown = " ".join(f"{name} {loss:.0f}" for name, loss in sorted(losses.items()))
        report(f"epoch {epoch + 1}/{config.epochs}: {seconds:.0f} s, step {step}/{total}, loss {shown}")
    with nlp.use_params(optimizer.averages):
        averaged = nlp.to_bytes()
    return spacy.util.load_model_from_config(nlp.config, auto_fill=True).from_bytes(averaged)


def _estimate_steps(config: TrainingConfig, trees: list[Tree], captions: list[Tree]) -> int:
    words = sum(map(len, trees)) * (1 + config.fragment_rate / 3) + sum(map(len, captions))
    return max(1, int(config.epochs * words / config.batch_words) + 500)


def _epoch(
    config: TrainingConfig, nlp: "Language", trees: list[Tree], captions: list[Tree], rng: Random
) -> Iterator["Example"]:
    from spacy.tokens import Doc
    from spacy.training import Example

    sample = trees + captions
    sample += [part for tree in trees if rng.random() < config.fragment_rate for part in fragments(tree, rng)]
    sample = [augment(tree, rng) for tree in sample]
    rng.shuffle(sample)
    for group in joined(sample, rng):
        reference = to_doc(group, nlp.vocab)
        words = [token.text for token in reference]
        yield Example(Doc(nlp.vocab, words=words, spaces=[bool(token.whitespace_) for token in reference]), reference)


def _batch_sizes(limit: int) -> Iterator[int]:
    size = 300.0
    while True:
        yield int(size)
        size = min(size * 1.003, float(limit))


def _batched(examples: Iterator["Example"], sizes: Iterator[int]) -> Iterator[list["Example"]]:
    batch: list[Example] = []
    words = size = 0
    for example in examples:
        size = size if batch else next(sizes)
        batch.append(example)
        words += len(example.reference)
        if words >= size:
            yield batch
            batch, words = [], 0
    if batch:
        yield batch
