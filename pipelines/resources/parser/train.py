"""Train one pipeline of standard spaCy components (tok2vec, tagger, parser, attribute_ruler, lemmatizer), save it."""

from __future__ import annotations

import json
import shutil
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import spacy
from pydantic import Field
from spacy.language import Language
from spacy.lookups import Lookups
from spacy.pipeline import AttributeRuler, Lemmatizer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed

from ....augment.settings import AboveZero, AtLeastOne, BelowOne, Settings, Share
from ..progress import report
from .captions import caption_trees
from .clear import read_clear
from .lexical import attribute_patterns, lemma_tables
from .tree import REDISTRIBUTABLE_HOSTS, Tree, agreed_trees, augment, coco_captions, fragments, joined, to_doc


class ParserTrainingConfig(Settings):
    """Sizes and schedule of one training run."""

    seed: int = Field(1, description="seed of all random choices")
    width: AtLeastOne = Field(96, description="width of the tok2vec")
    depth: AtLeastOne = Field(4, description="depth of the tok2vec")
    rows: AtLeastOne = Field(3000, description="size of the largest hash table of the tok2vec")
    hidden: AtLeastOne = Field(64, description="width of the parser's hidden layer")
    epochs: AtLeastOne = Field(14, description="passes over the sentences")
    learning_rate: AboveZero = Field(0.001, description="falls linearly to a tenth")
    batch_words: AtLeastOne = Field(1000, description="final batch size in words")
    dropout: BelowOne = Field(0.1, description="dropout of all components")
    fragment_rate: Share = Field(0.15, description="share of sentences of which fragments are added in an epoch")


def build(config: ParserTrainingConfig, trees: list[Tree]) -> Language:
    """Return an untrained pipeline with the labels that occur in `trees`."""
    fix_random_seed(config.seed)
    nlp = spacy.blank("en")
    tok2vec = {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": config.width,
        "depth": config.depth,
        "embed_size": config.rows,
        "window_size": 1,
        "maxout_pieces": 3,
        "subword_features": True,
    }
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": config.width, "upstream": "tok2vec"}
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    parser = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "parser",
        "extra_state_tokens": False,
        "hidden_width": config.hidden,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": listener,
    }
    for name, model in (("tok2vec", tok2vec), ("tagger", tagger), ("parser", parser)):
        nlp.add_pipe(name, config={"model": model})
    ruler = nlp.add_pipe("attribute_ruler")
    lemmatizer = nlp.add_pipe("lemmatizer", config={"mode": "rule"})
    assert isinstance(ruler, AttributeRuler) and isinstance(lemmatizer, Lemmatizer)
    lookups = Lookups()
    for name, table in lemma_tables().items():
        lookups.add_table(name, table)
    references = [to_doc([tree], nlp.vocab) for tree in trees]
    nlp.initialize(lambda: [Example(doc.copy(), doc) for doc in references])
    # Only now, as initialize() empties both tables.
    ruler.add_patterns(attribute_patterns())
    lemmatizer.initialize(lookups=lookups)
    return nlp


def train(
    config: ParserTrainingConfig,
    trees: list[Tree],
    captions: list[Tree],
    report: Callable[[str], None],
    more_captions: Callable[[Random], list[Tree]] = lambda rng: [],
) -> Language:
    """Train a pipeline on treebank sentences and caption trees.

    The same seed and data give the same weights on the same machine.

    Args:
        config: sizes and schedule.
        trees: treebank sentences; in every epoch they are lower-cased, cut and turned into fragments at random.
        captions: caption trees; only their case and final full stop are varied.
        report: called with one line per epoch.
        more_captions: called in every epoch for further caption trees, which the grammar generates.
    """
    rng = Random(config.seed)
    first_captions = more_captions(Random(config.seed))
    nlp = build(config, trees + captions + first_captions)
    optimizer = nlp.create_optimizer()
    total = _estimate_steps(config, trees, captions + first_captions)
    step = 0
    sizes = _batch_sizes(config.batch_words)
    for epoch in range(config.epochs):
        start = time.perf_counter()
        losses: dict[str, float] = {}
        sample = trees + captions + more_captions(rng)
        for tree in trees:
            if rng.random() < config.fragment_rate:
                sample += fragments(tree, rng)
        sample = [augment(tree, rng) for tree in sample]
        rng.shuffle(sample)
        examples = (_to_example(nlp, group) for group in joined(sample, rng))
        for batch in _group_into_batches(examples, sizes):
            # The learning rate rises during the first 100 steps, and falls to a tenth until the last.
            done = min(step / total, 1.0)
            warm_up = min(1.0, (step + 1) / 100)
            optimizer.learn_rate = config.learning_rate * (1.0 - 0.9 * done) * warm_up
            nlp.update(batch, sgd=optimizer, losses=losses, drop=config.dropout)
            step += 1
        seconds = time.perf_counter() - start
        shown = " ".join(f"{name} {loss:.0f}" for name, loss in sorted(losses.items()))
        report(f"epoch {epoch + 1}/{config.epochs}: {seconds:.0f} s, step {step}/{total}, loss {shown}")
    with nlp.use_params(optimizer.averages):
        averaged = nlp.to_bytes()
    return spacy.util.load_model_from_config(nlp.config, auto_fill=True).from_bytes(averaged)


def _estimate_steps(config: ParserTrainingConfig, trees: list[Tree], captions: list[Tree]) -> int:
    """Estimate the number of training steps, over which the learning rate falls.

    A fragment has about a third of the words of its sentence; 500 more steps are for the first, small batches.
    """
    words = sum(map(len, trees)) * (1 + config.fragment_rate / 3) + sum(map(len, captions))
    return max(1, int(config.epochs * words / config.batch_words) + 500)


def _batch_sizes(largest: int) -> Iterator[float]:
    """The sizes of successive batches in words, without end: 300 at first, then 0.3 % more each, up to `largest`."""
    # Small batches move the weights often while they are far off; large ones give steady gradients at the end.
    size = 300.0
    while True:
        yield size
        size = min(size * 1.003, float(largest))


def _to_example(nlp: Language, trees: list[Tree]) -> Example:
    """The trees as one document for spaCy to learn from: the bare words, and the same with gold annotation."""
    reference = to_doc(trees, nlp.vocab)
    words = [token.text for token in reference]
    spaces = [bool(token.whitespace_) for token in reference]
    return Example(Doc(nlp.vocab, words=words, spaces=spaces), reference)


def _group_into_batches(examples: Iterable[Example], sizes: Iterator[float]) -> Iterator[list[Example]]:
    """Group examples into batches of at least so many words."""
    batch: list[Example] = []
    words = 0
    size = 0
    for example in examples:
        if not batch:
            size = int(next(sizes))
        batch.append(example)
        words += len(example.reference)
        if words >= size:
            yield batch
            batch = []
            words = 0
    if batch:
        yield batch


def accuracy(nlp: Language, trees: Iterable[Tree]) -> dict[str, float]:
    """Return the accuracies of tags, heads (UAS), heads with their labels (LAS) and parts of speech, in percent.

    The words are given as in the gold trees; UAS and LAS exclude punctuation.
    """
    scores = nlp.evaluate([_to_example(nlp, [tree]) for tree in trees])
    keys = {"tag": "tag_acc", "uas": "dep_uas", "las": "dep_las", "pos": "pos_acc"}
    return {name: round(100 * scores[key], 2) for name, key in keys.items()}


MORE_CAPTIONS = partial(caption_trees, 7_000)  # in each epoch
SELF_TRAINED = 9_000  # captions, at most


def train_on(treebanks: Path, captions: Path | None, output: Path, config: ParserTrainingConfig) -> None:
    """Train the parser on the treebanks in a folder and, with COCO's captions, on its own parses; save it to `output`.
    Raises OSError or ValueError for files that are missing or damaged.
    """
    dev = list(read_clear(treebank(treebanks, "en_ewt", "dev")))
    texts = coco_captions(captions) if captions else []
    trees = list(read_clear(treebank(treebanks, "en_ewt", "train")))
    trees += read_clear(treebank(treebanks, "en_gum", "train"), REDISTRIBUTABLE_HOSTS)
    agreed = self_trained(trees, texts, config) if texts else []
    save(train(config, trees, agreed, report, MORE_CAPTIONS), output, dev, texts, config)


def treebank(folder: Path, name: str, split: str) -> Path:
    """Return the file `{name}[-ud]-{split}.conllu[.gz]` below a folder. Raises FileNotFoundError if there is none."""
    for pattern in (f"{name}-{split}.conllu*", f"{name}-ud-{split}.conllu*"):
        if paths := sorted(folder.rglob(pattern)):
            return paths[0]
    raise FileNotFoundError(f"{folder}: expected {name}-{split}.conllu or {name}-ud-{split}.conllu, plain or gzipped")


def self_trained(trees: list[Tree], captions: list[str], config: ParserTrainingConfig) -> list[Tree]:
    """Train two smaller models on `trees` and return the parses of those captions on which the two agree."""
    # Models of other sizes and seeds make other errors: where they agree, a parse is most likely right.
    first_config = config.changed(seed=config.seed, width=96, depth=4, epochs=7)
    second_config = config.changed(seed=config.seed + 1, width=64, depth=3, epochs=6)
    first = train(first_config, trees, [], report, MORE_CAPTIONS)
    second = train(second_config, trees, [], report, MORE_CAPTIONS)
    agreed = agreed_trees(first, second, captions, SELF_TRAINED, Random(config.seed))
    report(f"self-training: the models agree on {len(agreed)} of the captions drawn from {len(captions)}")
    return agreed


def save(nlp: Language, folder: Path, dev: list[Tree], captions: list[str], config: ParserTrainingConfig) -> None:
    """Save the pipeline in the place of a folder, with its sources and accuracies in meta.json.

    Args:
        nlp: the pipeline.
        folder: which is replaced when all is written.
        dev: sentences to measure the accuracies on.
        captions: that it was also trained on; [] if it was not.
        config: how it was trained.
    """
    meta = tomllib.loads(Path(__file__).with_name("meta.toml").read_text("utf-8"))
    labels = "English for image captions: Penn tags, UPOS, CLEAR dependencies, lemmas, as en_core_web_*."
    meta["description"] = f"{labels} tok2vec {config.width}x{config.depth}, seed {config.seed}."
    if not captions:
        meta["sources"].pop()  # the last source is COCO's captions
    nlp.meta.update({**meta, "performance": {"ewt_dev": accuracy(nlp, dev)}})
    # The old folder stays until the new one is complete.
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    nlp.to_disk(new)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    report(f"{folder}: {json.dumps(nlp.meta['performance'])}")
