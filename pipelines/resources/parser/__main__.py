"""Train the shipped parser: `python -m negcap.pipelines.resources.parser TREEBANKS [--captions FILE]`."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from .captions import caption_trees
from .evaluation import accuracy, component_shares, megabytes, words_per_second
from .augmentation import agreed_trees, coco_captions
from .train import TrainingConfig, train
from .tree import REDISTRIBUTABLE_HOSTS, Tree
from .clear import read_clear

if TYPE_CHECKING:
    from spacy.language import Language

DEFAULT_OUTPUT = Path(__file__).parents[3] / "augment" / "data" / "english_parser"
GRAMMAR_CAPTIONS = 7_000
SELF_TRAINED = 9_000
SPEED_SAMPLE = 5_000
SOURCES = [
    {"name": "UD English EWT, train", "license": "CC BY-SA 4.0",
     "url": "https://universaldependencies.org/treebanks/en_ewt"},
    {"name": "UD English GUM, train: only documents from Wikinews, Wikipedia, Wikivoyage and Wikisource",
     "license": "annotations CC BY 4.0; texts CC BY 2.5, CC BY-SA 3.0 and public domain",
     "url": "https://universaldependencies.org/treebanks/en_gum"},
    {"name": "caption trees made by a grammar (pipelines/resources/parser)", "license": "Apache-2.0",
     "url": ""},
    {"name": "spacy-lookups-data, English lemma exceptions and index (from WordNet 3.0)",
     "license": "MIT; WordNet licence",
     "url": "https://github.com/explosion/spacy-lookups-data"},
]  # fmt: skip
COCO_SOURCE = {
    "name": "COCO captions val2017, parsed by two earlier models that agree",
    "license": "CC BY 4.0",
    "url": "https://cocodataset.org",
}


def main(arguments: list[str] | None = None) -> int:
    """Train a parser, or evaluate one with --evaluate; `arguments` defaults to sys.argv. Returns the exit status."""
    options = _options(arguments)
    try:
        dev = list(read_clear(treebank(options.treebanks, "en_ewt", "dev")))
        captions = coco_captions(options.captions) if options.captions else []
        if options.evaluate:
            import spacy

            print(json.dumps(figures(spacy.load(options.output), dev, captions, options.output), indent=2))
            return 0
        trees = training_trees(options.treebanks)
    except (OSError, ValueError) as error:
        print(f"parser: {error}", file=sys.stderr)
        return 2
    config = TrainingConfig(seed=options.seed, width=options.width, depth=options.depth, epochs=options.epochs)
    agreed = self_trained(trees, captions, config) if captions else []
    nlp = train(config, trees, agreed, _report, lambda rng: caption_trees(GRAMMAR_CAPTIONS, rng))
    save(nlp, options.output, dev, captions, config)
    return 0


def treebank(folder: Path, name: str, split: str) -> Path:
    """Return the file `{name}-{split}.conllu[.gz]` or `{name}-ud-{split}.conllu[.gz]` below a folder.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    for pattern in (f"{name}-{split}.conllu*", f"{name}-ud-{split}.conllu*"):
        found = sorted(folder.rglob(pattern))
        if found:
            return found[0]
    raise FileNotFoundError(f"{folder}: expected {name}-{split}.conllu or {name}-ud-{split}.conllu, plain or gzipped")


def training_trees(folder: Path) -> list[Tree]:
    """Return the training sentences of the treebanks below `folder`, converted to the labels of spaCy's models.

    They are all of EWT, and those documents of GUM whose licence allows to adapt and redistribute them.
    """
    gum = read_clear(treebank(folder, "en_gum", "train"), REDISTRIBUTABLE_HOSTS)
    return [*read_clear(treebank(folder, "en_ewt", "train")), *gum]


def self_trained(trees: list[Tree], captions: list[str], config: TrainingConfig) -> list[Tree]:
    """Train two smaller models on `trees` and return the parses of those captions on which the two agree."""
    models = []
    for seed, width, depth, epochs in ((config.seed, 96, 4, 7), (config.seed + 1, 64, 3, 6)):
        smaller = TrainingConfig(seed=seed, width=width, depth=depth, epochs=epochs)
        models.append(train(smaller, trees, [], _report, lambda rng: caption_trees(GRAMMAR_CAPTIONS, rng)))
    agreed = agreed_trees(models[0], models[1], captions, SELF_TRAINED, Random(config.seed))
    _report(f"self-training: the models agree on {len(agreed)} of the captions drawn from {len(captions)}")
    return agreed


def figures(nlp: "Language", dev: list[Tree], captions: list[str], folder: Path) -> dict[str, Any]:
    """Return `ewt_dev` (accuracies in %) and `megabytes`, and if captions are given, also speed.

    The speed is `words_per_second` and `time_share` (% by component). folder: of the pipeline, for its size only.
    """
    shown: dict[str, Any] = {"ewt_dev": accuracy(nlp, dev), "megabytes": megabytes(folder) if folder.exists() else None}
    if captions:
        shown["words_per_second"] = words_per_second(nlp, captions[:SPEED_SAMPLE])
        shown["time_share"] = component_shares(nlp, captions[:SPEED_SAMPLE])
    return shown


def save(nlp: "Language", folder: Path, dev: list[Tree], captions: list[str], config: TrainingConfig) -> None:
    """Save the pipeline to `folder`, with its sources, accuracies and speed in meta.json.

    It is written to a temporary folder first, which then replaces `folder`.
    """
    measured = figures(nlp, dev, captions, Path("-"))
    measured.pop("megabytes")
    nlp.meta.update({
        "name": "negcap_parser", "version": "1.0.0", "spacy_version": ">=3.8.0,<3.9.0",
        "author": "negcap", "license": "CC BY-SA 4.0", "url": "",
        "description": "English for image captions: Penn tags, UPOS, CLEAR dependencies, lemmas, as en_core_web_*. "
        f"tok2vec {config.width}x{config.depth}, seed {config.seed}.",
        "sources": SOURCES + ([COCO_SOURCE] if captions else []),
        "performance": measured,
    })  # fmt: skip
    new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    nlp.to_disk(new)
    if folder.exists():
        os.replace(folder, old)
    os.replace(new, folder)
    shutil.rmtree(old, ignore_errors=True)
    _report(f"{folder}: {megabytes(folder)} MB, {json.dumps(measured)}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m negcap.pipelines.resources.parser", description=__doc__)
    parser.add_argument("treebanks", type=Path, help="folder with en_ewt and en_gum CoNLL-U files, plain or gzipped")
    parser.add_argument("--captions", type=Path, help="COCO caption annotations, for self-training and for the speed")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="folder of the pipeline")
    parser.add_argument("--evaluate", action="store_true", help="do not train; print accuracy and speed of --output")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--depth", type=int, default=4)
    return parser.parse_args(arguments)


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
