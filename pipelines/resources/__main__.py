"""Make what negcap ships: `python -m negcap.pipelines.resources COMMAND …`; --help lists the commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ..cli.group import CONTEXT, CommandGroup
from ..engine.errors import require_libraries

DATA = Path(__file__).parents[2] / "augment" / "data"
shipped_model = click.option(
    "--model", type=Path, default=DATA / "cloze" / "model.npz", help="The cloze model; default: the shipped."
)
output_model = click.option(
    "--output", type=Path, required=True, metavar="MODEL", help="The file to write, such as own.npz."
)
leave_out_photos = click.option(
    "--leave-out",
    type=Path,
    metavar="FILE",
    help="Ids of photos whose captions are not read; an id is an image's name up to the first _ or dot.",
)


class MakerGroup(CommandGroup):
    """The group of these commands, which has no sections."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under one heading."""
        click.Group.format_commands(self, ctx, formatter)


@click.group(cls=MakerGroup, context_settings=CONTEXT)
def resources() -> None:
    """Make the files in augment/data anew, or others like them."""


@resources.command(
    configs="resources.cloze.config:ClozeTrainingConfig resources.cloze.config:Sizes",
    flags="seed epochs learning_rate batch min_count threads words states hidden heads",
)
@click.argument("captions", nargs=-1, required=True)
@click.option("--held-out", multiple=True, metavar="CAPTIONS", help="For the perplexity; splits other than train.")
@leave_out_photos
@click.option("--source", help="What the captions are, for the model's metadata; default: their names.")
@click.option(
    "--continue", "continued", type=Path, metavar="MODEL", help="Train this model on, or that of the package (shipped)."
)
@output_model
def cloze(
    captions: tuple[str, ...],
    held_out: tuple[str, ...],
    leave_out: Path | None,
    source: str | None,
    continued: Path | None,
    output: Path,
    **given: object,
) -> None:
    """Train a cloze model, or continue one (--continue).

    CAPTIONS are files, folders or URLs that `negcap build` reads, of each its train splits if it has any, else all;
    `negcap build --set cloze=MODEL` uses the model. It is one file of weights, without a sentence of the captions. The
    same captions, flags and PyTorch on the same kind of processor give the same bytes.
    """
    require_libraries('training needs PyTorch: pip install "negcap[train]"', "torch")
    from .cloze.train import train_on

    train_on(
        captions, output, held_out=held_out, leave_out=leave_out, source=source or "", continued=continued, **given
    )


@resources.command(
    configs="resources.cloze.config:SurrogateConfig", flags="seed captions epochs batch learning_rate width"
)
@click.argument("sources", nargs=-1, required=True)
@shipped_model
@leave_out_photos
@output_model
def surrogate(sources: tuple[str, ...], model: Path, leave_out: Path | None, output: Path, **given: object) -> None:
    """Fit the surrogate of a cloze model: a small network that estimates what the model would say of an edited caption.

    The estimate is by how much each word becomes less probable when another one is replaced, so that the model need
    not read most texts. SOURCES are captions that `negcap build` reads. A model without a surrogate works, but takes
    several times as long.
    """
    from .cloze.config import SurrogateConfig
    from .cloze.surrogate import fit_to

    fit_to(sources, model, output, leave_out, SurrogateConfig.of(given))


@resources.command(configs="resources.parser.train:ParserTrainingConfig", flags="seed epochs width depth")
@click.argument("treebanks", type=Path)
@click.option("--captions", type=Path, help="COCO caption annotations, for self-training.")
@click.option("--output", type=Path, default=DATA / "english_parser", help="Folder of the pipeline.")
def parser(treebanks: Path, captions: Path | None, output: Path, **given: object) -> None:
    """Train the parser on English treebanks.

    TREEBANKS: a folder with the CoNLL-U files of en_ewt and en_gum, plain or gzipped. Trained on are all of EWT, and
    those documents of GUM whose licence allows to adapt and redistribute them.
    """
    from .parser.train import ParserTrainingConfig, train_on

    train_on(treebanks, captions, output, ParserTrainingConfig.of(given))


@resources.command()
@click.argument("run", type=Path)
@click.option("--source", required=True, help="What captions the run was built from, for the metadata.")
@click.option("--output", type=Path, default=DATA / "reference_lexicon", help="Folder of the files.")
def reference(run: Path, source: str, output: Path) -> None:
    """Write the reference tables that negcap ships from a run: its lexicon, truth estimates and balancing weights.

    Other runs add these counts to their own.

    RUN: made by `negcap build CAPTIONS --output RUN --set lexicon=own`. The same run gives the same bytes. The tables
    contain words and counts, but no sentences.
    """
    from .reference import write_reference

    write_reference(run, output, source)


@resources.command()
@click.option("--source", type=Path, default=Path("/usr/share/wordnet"), help="Folder of an installed WordNet.")
@click.option("--output", type=Path, default=DATA / "wordnet.parquet", help="The Parquet file to write.")
def wordnet(source: Path, output: Path) -> None:
    """Build WordNet's taxonomy as one Parquet file, without glosses and examples, with its licence beside it."""
    from .wordnet import build

    build(source, output)


@resources.command()
@click.option("--model", type=Path, default=DATA / "cloze" / "model.npz", help="The cloze model with the word vectors.")
@click.option("--output", type=Path, default=DATA / "senses.toml", help="The TOML file to write.")
def senses(model: Path, output: Path) -> None:
    """Find the senses that nouns mostly have in captions, where they are not the first in WordNet."""
    from .senses import build

    build(model, output)


@resources.command()
@click.argument("scores", type=Path)
@click.argument("captions", nargs=-1, required=True)
@click.option("--output", type=Path, default=DATA / "concreteness.json", help="The JSON file to write.")
def concreteness(scores: Path, captions: tuple[str, ...], output: Path) -> None:
    """Fit the concreteness score: ridge regression of published scores on WordNet ancestors.

    SCORES: the list of Turney, Neuman, Assaf and Cohen (2011) as distributed with VSE-C (`word<TAB>score`). Noun lemmas
    that head noun phrases at least 5 times in CAPTIONS (any source that `negcap build` reads) are excluded from the
    fit; the accuracy is measured on them, with the coefficients that are written.
    """
    from .concreteness import build

    build(scores, captions, output)


@resources.command(
    configs="resources.cloze.config:JudgementConfig",
    flags="seed hidden products epochs batch learning_rate weight_decay dropout without_vectors pair_weight",
)
@click.argument("labels", type=Path)
@shipped_model
@output_model
def judgement(labels: Path, model: Path, output: Path, **given: object) -> None:
    """Fit the network that predicts what raters would say of a negative.

    LABELS: a tab-separated file with the columns caption, text (the negative), shown (what the rater saw: pair, the two
    alone, or list, one of many changes of a caption), weight (how many negatives it stands for: 1 unless some were
    asked of more often), odd and both (1, 0 or empty), a row for what a rater said. The accuracy on folds that were
    left out is written, too.
    """
    from .cloze.config import JudgementConfig
    from .judgement import fit_to

    print(fit_to(labels, model, output, JudgementConfig.of(given)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; arguments: None for those of the process. Returns the exit status: 0, or 2 for bad input.
    An error is one line on stderr, which begins with the name of the command.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = next((word for word in words if word in resources.commands), "resources")
    try:
        resources.main(words, prog_name="python -m negcap.pipelines.resources", standalone_mode=False)
    except (click.ClickException, ImportError, OSError, ValueError) as error:
        print(f"{command}: {_message(error)}", file=sys.stderr)
        return 2
    return 0


def _message(error: Exception) -> str:
    """The message of an error, in one line."""
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, ModuleNotFoundError) and f"{error.name}.".startswith(f"{__package__}."):
        return "this makes a file that negcap ships, and runs from a checkout of the repository only, not from a wheel"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
