"""Commands that reproduce experiments of papers: what models have learned, captioners, order-embeddings, and pictures
of synthetic scenes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...schemas.messages import number_of
from . import options
from .group import in_this_process, negcap, say, to_json, with_workers
from .models import overwrite
from .options import FOLDER, PHASES, PROBES, FlagValue

results = options.folder("Folder of the results.")


@negcap.command(configs="stages.scenes:CounterpartsConfig", flags="share splits operators seed")
@options.run
@click.option("--winoground", type=FOLDER, metavar="DIR", help="Also write them in Winoground's form to this folder.")
@options.overwrite
@options.quiet
def counterparts(run: Path, winoground: Path | None, **given: FlagValue) -> None:
    """Draw pictures in which negatives of scenes are true.

    Takes the first negative of each operator and draws the scene with the smallest change after which the negative is
    true and its caption false, both by ground truth. Needs a run of `negcap scenes` with negatives.

    \b
    Example: negcap counterparts outputs/scenes --split test --winoground outputs/pairs
    """
    from ..stages.scenes import CounterpartsConfig, make_counterparts, write_winoground

    counts = make_counterparts(run, CounterpartsConfig.of(given), in_this_process(given))
    # Counters are named <operator>.negatives and <operator>.pictures; those without a dot are sums.
    for name in sorted(key.removesuffix(".negatives") for key in counts if key.endswith(".negatives")):
        negatives = number_of(counts[f"{name}.negatives"], "negative")
        print(f"{name}: {counts.get(f'{name}.pictures', 0):,} of {negatives} drawn")
    print(f"{number_of(counts['pictures'], 'picture')} for {number_of(counts['negatives'], 'negative')}")
    if winoground is not None:
        pairs = number_of(write_winoground(run, winoground), "pair")
        print(f"{pairs} of images and captions in {winoground}")


@negcap.command()
@options.run
@options.refined
@click.option("--n", type=int, default=5, show_default=True, help="Examples of true negatives per operator.")
@options.as_json
def judge(run: Path, table: str | None, n: int, as_json: bool) -> None:
    """Count how many negatives of synthetic scenes are false.

    Compares every sentence with the facts of its scene, in two readings: as people use numbers ("a dog" is false of
    three dogs), and in logic ("a dog" is true of them). Captions and positives, which must be true, are compared as
    well. A sentence that is a matter of opinion, or that cannot be analysed, counts as undecided.

    It is for runs of `negcap scenes` only: for captions of photos, use `negcap vet`.

    \b
    Example: negcap judge outputs/scenes
    """
    from ..scenes.report import counts, judge_run, print_report

    judged = judge_run(run, table or "negatives")
    if as_json:
        print(to_json(counts(judged)))
    else:
        print_report(judged, sys.stdout, n)


@negcap.command(
    configs="models.settings:ProbeConfig models.settings:SaliencyConfig models.config:PictureConfig "
    "models.settings:LengthConfig",
    flags="vectors split train_splits operators limit best epochs hidden seed device threads",
)
@click.argument("task", type=options.Choice(PROBES))
@options.run
@click.option("--model", "models", type=FOLDER, multiple=True, metavar="MODEL", help="Model to probe. May be repeated.")
@options.folder("Folder of the results; default: MODEL/TASK.", required=False)
@click.option("--images", "photos", type=FOLDER, metavar="FOLDER", help="saliency, pictures: folder of the photos.")
@click.option("--query", "queries", multiple=True, metavar="TEXT", help="pictures: what to look for. May be repeated.")
@options.quiet
def probe(
    task: str,
    run: Path,
    models: tuple[Path, ...],
    output: Path | None,
    photos: Path | None,
    quiet: bool,
    **given: FlagValue,
) -> None:
    """Measure what models have learned, by the probes of papers.

    It does not measure how good a model is: use `negcap evaluate` or `negcap score`.

    words: which objects does an image show (VSE-C's Table 6)? blanks: which noun or preposition is missing in a caption
    of the image (Table 7)? One row for the word vectors of --vectors, one for each model, whose learned word vectors
    are joined to them, and baselines.

    saliency: by operator, the share of the saliency (the gradient of the similarity to the vectors of the words,
    VSE-C's equation 4) that is on the words that an edit inserts, and the share that chance gives; saliency.png shows
    some negatives with the shares of their words, and over the photos those of the regions of a grid.

    pictures: of UniVSE, relevance.png: the regions of photos that are relevant to an object, an attributed object or a
    relation; neighbours.png: the run's frequent nouns, attributed nouns and triples, projected to the plane by t-SNE.
    Of MHA-D, heads.png: the regions and words to which each head attends; views.png: images and captions in the plane.

    lengths: what a model knows of how general a caption is (Vendrov et al. 2016, section 4.6): of the captions that
    differ most in length, the mean rank of their image, and of the longer one where the shorter one is the query. If
    the run has components, also retrieval by what is composed of two objects, or of an image and an object, by the
    coordinate-wise maximum, and of what two objects have in common, by the minimum (its Figure 4); under the cosine all
    are sums.

    Prints Markdown, or the files; writes it with JSON to --output.

    \b
    Example: negcap probe words outputs/mine --vectors glove.txt --model outputs/vse-c --output outputs/words
    """
    from ..models.config import PictureConfig
    from ..models.settings import LengthConfig, ProbeConfig, SaliencyConfig

    # These two compare several models with word vectors; the others look into one.
    if task in ("words", "blanks"):
        if output is None or given["vectors"] is None:
            raise ValueError(f"{task} needs --vectors and --output")
        chosen = ProbeConfig.of(given, models=models)
        from ..models.probe import probe as run_task

        print(run_task(task, run, chosen, output, say(quiet)))
        return
    if len(models) != 1:
        raise ValueError(f"{task} needs one --model MODEL, was given {len(models)}")
    (model,) = models
    from ..engine.storage import refuse_link

    output = output or refuse_link(model / task)
    if task == "saliency":
        words = SaliencyConfig.of(given)
        from ..models.probe.saliency import saliency

        print(saliency(model, run, photos, output, words))
    elif task == "lengths":
        lengths = LengthConfig.of(given)
        from ..models.order.lengths import measure_lengths

        print(measure_lengths(model, run, lengths, output))
    else:
        pictures = PictureConfig.of(given)
        from ..models.trainer.pictures import draw_pictures

        print("\n".join(map(str, draw_pictures(model, run, photos, output, pictures))))


@negcap.command(configs="models.settings:HypernymConfig", flags="rows false_pairs seeds epochs concepts device threads")
@results
@options.quiet
def hypernyms(output: Path, quiet: bool, **given: FlagValue) -> None:
    """Predict hypernyms of WordNet's nouns by order-embeddings.

    Table 1 of Vendrov et al. (2016): the transitive closure of the known pairs, word2gauss, a symmetric and a bilinear
    model, and order-embeddings, on held-out pairs. Prints Markdown; writes it to DIR with JSON, the vectors of all
    concepts, and hypernyms.png, some concepts in two dimensions.

    \b
    Example: negcap hypernyms --output outputs/hypernyms --seeds 3
    """
    from ..models.settings import HypernymConfig

    config = HypernymConfig.of(given)
    from ..models.order.hypernyms import predict_hypernyms

    print(predict_hypernyms(config, output, say(quiet)))


@negcap.command(configs="models.settings:EntailConfig", flags="similarities seeds epochs device threads")
@click.argument("train", type=FOLDER)
@click.argument("validation", type=FOLDER, metavar="DEV")
@click.argument("test", type=FOLDER)
@results
@options.quiet
def entail(train: Path, validation: Path, test: Path, output: Path, quiet: bool, **given: FlagValue) -> None:
    """Train and test textual entailment by order-embeddings.

    Table 3 of Vendrov et al. (2016): is a hypothesis entailed by its premise? TRAIN, DEV and TEST are files of SNLI
    (.jsonl, .txt), of SICK, or of `negcap publish --format snli`. Pairs whose gold label is "-" are left out. Prints
    Markdown; writes it to DIR with JSON and the weights.

    \b
    Example: negcap entail snli_1.0_train.jsonl snli_1.0_dev.jsonl snli_1.0_test.jsonl --output outputs/entailment
    """
    from ..models.settings import EntailConfig

    config = EntailConfig.of(given)
    from ..models.order.entailment import entail as fit

    print(fit(train, validation, test, config, output, say(quiet)))


@negcap.command(
    configs="models.settings:CaptionerConfig", flags="mle_epochs gan_epochs train_splits seed device threads"
)
@options.run
@options.folder("Folder of the captioner to write.", metavar="MODEL")
@overwrite
@options.quiet
def captioner(run: Path, output: Path, overwrite: bool, quiet: bool, **given: FlagValue) -> None:
    """Train a conditional GAN that writes captions.

    Trains first the generator by maximum likelihood, then the discriminator, then both by policy gradient with
    rollouts. Reads captions and features. Writes weights, metrics.jsonl and curves.png to the folder MODEL. An
    interrupted training continues after its last complete epoch.

    \b
    Example: negcap captioner outputs/mine --output outputs/captioner
    """
    from ..models.settings import CaptionerConfig

    config = CaptionerConfig.of(given, run=run, output=output)
    from ..models.captioner.train import train as fit

    fit(config, overwrite=overwrite, say=say(quiet))


@negcap.command(configs="stages.caption:CaptionConfig", flags="per_image decoding width splits table seed")
@options.model
@options.run
@options.one_of("--phase", PHASES, "Generator after maximum likelihood (mle) or policy gradient (gan); default: gan.")
@options.workers
def caption(model: Path, run: Path, phase: str | None, **given: FlagValue) -> None:
    """Write captions for a run's images with a captioner.

    Writes them to the table generated; those that are degenerate, repeated or equal to an existing caption of the image
    go to refused_captions, with the reason. `negcap train RUN --set extra=generated` also trains on generated captions.

    \b
    Example: negcap caption outputs/captioner outputs/mine --per-image 3 --split train
    """
    from ..engine.run import run_stage
    from ..models.captioner.model import weights_file
    from ..stages.caption import CaptionConfig, stage_of, summary

    with with_workers(given) as execution:
        config = CaptionConfig.of(given, weights=weights_file(model, phase or "gan").absolute())
        counts = run_stage(stage_of(config.table), run, config, execution)
        print(summary(counts, config))
