"""Train a cloze model, or continue one: `python -m negcap.pipelines.resources.cloze CAPTIONS… --output MODEL`.

CAPTIONS are files, folders or URLs that `negcap build` reads; `negcap build --set cloze=MODEL` uses the model. It is
one file of half-precision weights, without a sentence of the captions. The same captions, options and PyTorch on the
same kind of processor give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .corpus import Source
    from .network import Cloze

SHIPPED = "shipped"
CENTRED_ON = 5_000  # captions of the training set, at most, where none are held out
SIZES = {"words": 160, "states": 256, "hidden": 384, "heads": 4}
CONTINUED = {"epochs": 4, "learning_rate": 5e-4}  # where --continue is given and they are not


def main(arguments: list[str] | None = None) -> int:
    """Train a model and write it; `arguments` defaults to sys.argv. Returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        try:
            import torch
        except ImportError as error:
            raise ImportError('training needs PyTorch: pip install "negcap[train]"') from error
        _check(options)
        # With two threads that wait for each other actively on shared cores, it takes several times as long as with
        # one: the GRUs are many small products in a row. One thread also gives the same bytes on machines of any size.
        torch.set_num_threads(options.threads)
        _train(options)
    except (ImportError, OSError, ValueError) as error:
        print(f"cloze: {error}", file=sys.stderr)
        return 2
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise ValueError for values out of range or that do not go together."""
    sizes = [f"--{name}" for name in SIZES if getattr(options, name) is not None]
    if options.continued and sizes:
        raise ValueError(f"{', '.join(sizes)} must not be given with --continue: the model has its sizes")
    for name in ("threads", "min_count", *SIZES):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be >= 1, was: {value}")
    if options.output.is_dir():
        raise ValueError(f"output must be a file, is a folder: {options.output}")


def _train(options: argparse.Namespace) -> None:
    from ....augment.cloze.file import read_about
    from ....augment.cloze.states import SPECIAL
    from ....augment.data import data_path
    from . import corpus, model
    from .network import Sizes
    from .train import TrainingConfig, new_network, train

    if options.continued == Path(SHIPPED):
        options.continued = data_path("cloze") / "model.npz"
    given = {name: value for name, value in vars(options).items() if value is not None}
    schedule: dict[str, Any] = dict(CONTINUED) if options.continued else {}
    schedule |= {name: given[name] for name in ("seed", "epochs", "batch", "learning_rate") if name in given}
    config = TrainingConfig(**schedule)

    def read(source: str, left_out: frozenset[str] = frozenset(), held_out: bool = False) -> Source:
        found = corpus.read_source(source, left_out, held_out)
        _report(
            f"{source}: {len(found.texts)} distinct captions, {found.left_out} left out for their photos, "
            f"{found.rejected} unreadable"
        )
        return found

    left_out = corpus.read_photo_ids(options.leave_out) if options.leave_out else frozenset[str]()
    sources = [read(source, left_out) for source in options.captions]
    held_out = [read(source, held_out=True) for source in options.held_out]
    texts, kept_apart = (
        list(dict.fromkeys(text for source in group for text in source.texts)) for group in (sources, held_out)
    )
    if kept_apart and set(kept_apart) <= set(texts):
        raise ValueError("the captions held out must differ from those to train on, all of them are among these")

    words = list(corpus.tokenised(texts))
    continued = model.load(options.continued, config.dropout) if options.continued else None
    known = continued[0].names if continued else SPECIAL
    phrases = {*corpus.phrases(), *(name for name in known if " " in name)}
    units, counts = corpus.vocabulary(words, phrases, options.min_count, known)
    if not counts[len(SPECIAL) :].any():
        raise ValueError(f"a word must occur at least {options.min_count} times (--min-count), none does")
    if continued:
        net = model.enlarged(continued[1], continued[0], units, counts)
    else:
        net = new_network(counts, Sizes(**{name: given[name] for name in SIZES if name in given}), config)
    captions, measured = corpus.encode(words, units), corpus.encode(corpus.tokenised(kept_apart), units)
    _report(f"{len(texts)} distinct captions, {len(units.names)} units, {len(kept_apart)} captions held out")

    def after_epoch(net: Cloze, epoch: int) -> None:
        if measured:
            found, log_sum = model.perplexity(net, measured)
            _report(f"epoch {epoch}: perplexity {found:.3f}, mean log of the sum of probabilities {log_sum:.3f}")

    options.output.parent.mkdir(parents=True, exist_ok=True)
    after_epoch(net, 0)  # what cannot be measured is said before training
    train(net, captions, counts, config, _report, after_epoch)
    facts = {
        "source": options.source or ", ".join(source.name for source in sources),
        "captions": len(texts),
        "captions_left_out": sum(source.left_out for source in sources),
        "held_out": ", ".join(source.name for source in held_out),
        "held_out_captions": len(kept_apart),
        "min_count": options.min_count,
        "training": asdict(config),
        "continues": read_about(options.continued) if options.continued else None,
    }
    about = model.save(options.output, net, units, measured, facts, captions[:: -(-len(captions) // CENTRED_ON)])
    size = options.output.stat().st_size / 1e6
    _report(f"{options.output}: {size:.1f} MB, perplexity {about.get('perplexity', '-')}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m negcap.pipelines.resources.cloze", description=__doc__)
    add = parser.add_argument
    add("captions", nargs="+", metavar="CAPTIONS", help="of each: its train splits if it has any, else all")
    add("--held-out", nargs="+", default=[], metavar="CAPTIONS", help="for the perplexity; splits other than train")
    add("--leave-out", type=Path, metavar="FILE", help="ids of photos (names up to _ or .) not to train on")
    add("--source", help="what the captions are, for the model's metadata (default: their names)")
    continued = f"train this model on, or that of the package ({SHIPPED}); it gets the new words"
    add("--continue", dest="continued", type=Path, metavar="MODEL", help=continued)
    add("--output", type=Path, required=True, metavar="MODEL", help="the file to write, such as own.npz")
    add("--seed", type=int, default=1)
    add("--epochs", type=int, help=f"default: 14, {CONTINUED['epochs']} with --continue")
    add("--learning-rate", type=float, help=f"default: 2e-3, {CONTINUED['learning_rate']} with --continue")
    add("--batch", type=int, help="captions in a batch (default: 256)")
    add("--min-count", type=int, default=4, help="occurrences from which a word is a unit (default: %(default)s)")
    add("--threads", type=int, default=1, help="default: %(default)s, the fastest on shared cores")
    for name, default in SIZES.items():
        add(f"--{name}", type=int, help=f"size of a new network (default: {default})")
    return parser


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
