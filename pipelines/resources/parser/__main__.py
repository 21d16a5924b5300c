"""Train the shipped parser: `python -m negcap.pipelines.resources.parser TREEBANKS [--captions FILE]`."""

import argparse
import json
import os
import shutil
import sys
import tomllib
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from .augmentation import agreed_trees, coco_captions
from .captions import caption_trees
from .clear import read_clear
from .train import TrainingConfig, accuracy, speed, train
from .tree import REDISTRIBUTABLE_HOSTS, Tree

if TYPE_CHECKING:
    from spacy.language import Language

DEFAULT_OUTPUT = Path(__file__).parents[3] / "augment" / "data" / "english_parser"
MORE_CAPTIONS = partial(caption_trees, 7_000)
SELF_TRAINED = 9_000
SPEED_SAMPLE = 5_000


def main(arguments: list[str] | None = None) -> int:
    """Train a parser, or evaluate one with --evaluate; `arguments` defaults to sys.argv. Returns the exit status.

    The training sentences are all of EWT, and those documents of GUM whose licence allows to adapt and redistribute
    them.
    """
    options = _options(arguments)
    try:
        dev = list(read_clear(treebank(options.treebanks, "en_ewt", "dev")))
        captions = coco_captions(options.captions) if options.captions else []
        if options.evaluate:
            import spacy

            shown = figures(spacy.load(options.output), dev, captions)
            print(json.dumps({**shown, "megabytes": megabytes(options.output)}, indent=2))
            return 0
        trees = list(read_clear(treebank(options.treebanks, "en_ewt", "train")))
        trees += read_clear(treebank(options.treebanks, "en_gum", "train"), REDISTRIBUTABLE_HOSTS)
    except (OSError, ValueError) as error:
        print(f"parser: {error}", file=sys.stderr)
        return 2
    config = TrainingConfig(seed=options.seed, width=options.width, depth=options.depth, epochs=options.epochs)
    agreed = self_trained(trees, captions, config) if captions else []
    nlp = train(config, trees, agreed, _report, MORE_CAPTIONS)
    save(nlp, options.output, dev, captions, config)
    return 0


def treebank(folder: Path, name: str, split: str) -> Path:
    """Return the file `{name}-{split}.conllu[.gz]` or `{name}-ud-{split}.conllu[.gz]` below a folder.

    Raises FileNotFoundError if there is none.
    """
    for pattern in (f"{name}-{split}.conllu*", f"{name}-ud-{split}.conllu*"):
        if found := sorted(folder.rglob(pattern)):
            return found[0]
    raise FileNotFoundError(f"{folder}: expected {name}-{split}.conllu or {name}-ud-{split}.conllu, plain or gzipped")


def self_trained(trees: list[Tree], captions: list[str], config: TrainingConfig) -> list[Tree]:
    """Train two smaller models on `trees` and return the parses of those captions on which the two agree."""
    first, second = (
        train(TrainingConfig(seed=seed, width=width, depth=depth, epochs=epochs), trees, [], _report, MORE_CAPTIONS)
        for seed, width, depth, epochs in ((config.seed, 96, 4, 7), (config.seed + 1, 64, 3, 6))
    )
    agreed = agreed_trees(first, second, captions, SELF_TRAINED, Random(config.seed))
    _report(f"self-training: the models agree on {len(agreed)} of the captions drawn from {len(captions)}")
    return agreed


def figures(nlp: "Language", dev: list[Tree], captions: list[str]) -> dict[str, Any]:
    """Return the accuracies on `ewt_dev` in percent and, if captions are given, what `speed` measures on them."""
    return {"ewt_dev": accuracy(nlp, dev), **(speed(nlp, captions[:SPEED_SAMPLE]) if captions else {})}


def megabytes(folder: Path) -> float:
    """Return the size of all files below a folder, in MB (10^6 bytes)."""
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 2)


def save(nlp: "Language", folder: Path, dev: list[Tree], captions: list[str], config: TrainingConfig) -> None:
    """Save the pipeline to `folder`, with its sources, accuracies and speed in meta.json.

    It is written to a temporary folder first, which then replaces `folder`.
    """
    measured = figures(nlp, dev, captions)
    meta = tomllib.loads(Path(__file__).with_name("meta.toml").read_text("utf-8"))
    meta["description"] = (
        "English for image captions: Penn tags, UPOS, CLEAR dependencies, lemmas, as en_core_web_*. "
        f"tok2vec {config.width}x{config.depth}, seed {config.seed}."
    )
    meta["sources"] = meta["sources"][: None if captions else -1]
    nlp.meta.update({**meta, "performance": measured})
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
    for name, default in (("seed", 1), ("epochs", 14), ("width", 96), ("depth", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args(arguments)


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
