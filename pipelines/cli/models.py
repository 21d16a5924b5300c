"""Commands that train and score models."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..models.registry import MODELS, RECIPES
from . import options
from .group import Command, HelpEntry, negcap, say
from .options import FOLDER, PLACE, FlagValue

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

# Settings of a training that have flags of their own; --set reads the others, which depend on the model.
TRAINED = (
    "epochs batch_size joint learning_rate negative_families negative_operators similarity features vectors languages "
    "seed device threads"
)
# Settings of the evaluation that several models are compared by.
COMPARED = "split captions_per_image complete per_family per_operator".split()
overwrite = click.option(
    "--overwrite", is_flag=True, help="Replace a model that was trained with other data or settings."
)
output = options.folder("Folder of the model to write; of several, of their folders and the tables.", metavar="MODEL")


def with_default_split(run: Path, given: dict[str, FlagValue]) -> dict[str, FlagValue]:
    """The settings of an evaluation, with a `split` added where the default one cannot be used.

    That is where the user has given none, the run lacks the default split, and it has only one other split that is not
    for training: this one is evaluated, and a line says so.
    """
    from ...schemas.captions import TRAIN_SPLITS
    from ..models.config import EvaluateConfig
    from ..tables.columns import splits_of

    default = EvaluateConfig.of({}).split
    splits = splits_of(run)
    others = [name for name in splits if name not in TRAIN_SPLITS]
    if given.get("split") or default in splits or len(others) != 1:
        return given
    say()(f"evaluating on split {others[0]}: there is no split {default}")
    return {**given, "split": others[0]}


class TrainCommand(Command):
    """The command train, whose settings are those of all models; help lists those of one."""

    @cached_property
    def fields(self) -> dict[str, FieldInfo]:
        """The settings of all models, and COMPARED."""
        from ..models.config import CONFIGS, EvaluateConfig

        fields = {name: EvaluateConfig.model_fields[name] for name in COMPARED}
        for kind in CONFIGS.values():
            fields |= kind.model_fields
        return {name: field for name, field in fields.items() if name not in ("run", "output", "model")}

    def of_field(self, name: str) -> dict[str, FlagValue]:
        """Further arguments of `options.from_field`, the same for all fields: the defaults in which models differ."""
        from ..models.config import DEFAULTS

        return {"of_models": DEFAULTS}

    def settings_without_flag(self, ctx: click.Context) -> list[HelpEntry]:
        """The settings of the model whose help is asked for: `--model vse-c --help`; without one, those of vse++."""
        (named, *_) = ctx.params.get("models") or ("vse++",)
        # `vse-c+noun` begins with `vse` and `vse-c`: the longest is meant.
        model = max((model for model in MODELS if named.startswith(model)), key=len, default="vse++")
        return settings_of(model)


def settings_of(model: str) -> list[HelpEntry]:
    """The settings of a model that have no flag of their own, so that only --set changes them (TRAINED names those with
    a flag): for each `name=default`, as --set takes it, and its description.
    """
    from ..models.config import CONFIGS, configure

    defaults = vars(configure(run=Path(), output=Path(), model=model))  # any paths: only the defaults are read
    names_with_flag = TRAINED.split()
    entries = []
    for name, field in CONFIGS[model].model_fields.items():
        if name not in ("run", "output", "model", *names_with_flag):
            entries.append(HelpEntry(f"{name}={options.as_text(defaults[name])}", field.description or ""))
    return entries


@negcap.command(cls=TrainCommand, configs="models.config:TrainConfig", flags=f"{TRAINED} split")
@options.run
@options.several(
    "--model",
    "models",
    f"Kind of model: {', '.join(MODELS)}; vse-c+FAMILY trains with negatives of one family, ~order at the end with "
    "another similarity, @paper with the paper's settings; default: vse++. Several are compared.",
    is_eager=True,
)
@click.option("--seeds", type=int, help="Trainings per model, with seeds 0, 1, …, which are compared.")
@output
@options.one_of(
    "--recipe",
    RECIPES,
    "Settings that are not given: negcap's defaults (house), or those of the model's paper; default: house.",
)
@overwrite
@options.quiet
def train(run: Path, models: tuple[str, ...] | None, seeds: int | None, output: Path, **given: FlagValue) -> None:
    """Train an embedding of images and captions, or compare several.

    Trains VSE, VSE++, VSE-C with negatives of the run, UniVSE with components, and others (--model). Reads captions,
    features, and negatives or components. Writes weights, metrics.jsonl and curves.png to the folder MODEL. An
    interrupted training continues after its last complete epoch.

    Several models, or --seeds, are trained and compared as `negcap evaluate` does, printed as Markdown. Trained models
    are kept. A setting applies to the models that have it.

    \b
    Example: negcap train outputs/mine --model vse-c --output outputs/vse-c --negative-family noun --set margin=0.1
    """
    from ...augment.settings import given_only
    from ..models.config import EvaluateConfig, configure, lacking_of_recipe

    execution: dict[str, FlagValue] = {"overwrite": given.pop("overwrite"), "say": say(given.pop("quiet"))}
    given = given_only(given)  # the settings of the model, without flags that were not given
    evaluation = {name: given.pop(name) for name in COMPARED if name in given}
    model, *others = models or ("vse++",)
    # One training of a plain kind of model; `vse-c+noun` and the like are variants, which only a comparison reads.
    if seeds is None and not others and model in MODELS:
        if evaluation:
            raise ValueError(f"{', '.join(evaluation)} needs a comparison: give several --model, or --seeds")
        config = configure(run, output, model, **given)
        if lacking := lacking_of_recipe(model, given.get("recipe", ""), config.vectors):
            execution["say"](lacking)
        from ..models.trainer.train import train as fit

        fit(config, **execution)
        return
    if "seed" in given:
        raise ValueError("seed is for one training: models that are compared have the seeds 0, 1, …; use --seeds")
    from ..models.trainer.compare import compare

    machine = {name: given[name] for name in ("device", "threads") if name in given}
    evaluation_config = EvaluateConfig.of(with_default_split(run, evaluation) | machine)
    trainings = 1 if seeds is None else seeds
    print(compare(run, output, (model, *others), evaluation_config, given, trainings, **execution))


@negcap.command(
    configs="models.config:EvaluateConfig models.config:SimilarityConfig models.settings:CaptionerEvaluateConfig",
    flags="split limit captions_per_image complete per_family per_operator components alpha drop_components instances "
    "ranker per_image language seed device threads",
)
@options.model
@click.argument("source", type=PLACE, metavar="RUN")
@options.folder("Folder of the results; default: MODEL/evaluation.", required=False)
def evaluate(model: Path, source: Path, output: Path | None, **given: FlagValue) -> None:
    """Evaluate a model of negcap train on retrieval and negatives.

    Recalls, ranks and 95 % intervals: without negatives; with the negatives of each image's own captions (VSE-C's
    protocol) or of all captions (UniVSE's) among the candidates; on captions with a number above one; and how often a
    caption scores above its negative. If the run has components, also retrieval by objects, attributes and relations;
    for UniVSE also by alpha, and how well the image tells which components belong together. Prints Markdown, and writes
    it with JSON and the ranks (Parquet) to --output.

    It does not measure models trained elsewhere, such as CLIP or chat models (use `negcap score`).

    A captioner (of negcap captioner): before and after the policy gradient, with greedy decoding and sampling: BLEU,
    CIDEr-D, distinct words, novelty, self-BLEU, the discriminator's score, and how a model made by negcap train
    (--ranker) ranks the images for the captions.

    If RUN is a tab-separated file of pairs of sentences (the STS benchmark, SICK, or one with the columns score,
    sentence1 and sentence2): Pearson's r of the model's cosines with people's scores.

    \b
    Example: negcap evaluate outputs/vse-c outputs/mine --split test
    """
    from ..models.config import EvaluateConfig, SimilarityConfig
    from ..models.settings import CaptionerEvaluateConfig, is_captioner

    # What is evaluated depends on what is given. Each of the three has its own config; the flags are those of all.
    if source.is_file():
        similarity_config = SimilarityConfig.of(given)
        from ..models.trainer.sentence_similarity import similarity

        print(similarity(model, source, similarity_config, output))
        return
    if is_captioner(model):
        captioner_config = CaptionerEvaluateConfig.of(given)
        from ..models.captioner.evaluate import evaluate as evaluate_captions

        print(evaluate_captions(model, source, captioner_config, output))
        return
    config = EvaluateConfig.of(with_default_split(source, given))
    from ..engine.storage import refuse_link
    from ..models.trainer.evaluate import measure, write_evaluation

    # A link in a model's folder could lead the results anywhere; a folder that the user names may be a link.
    folder = output or refuse_link(model / "evaluation")
    print(write_evaluation(measure(model, source, config), folder))


@negcap.command(configs="score.test_set:ScoreConfig", flags="images splits refined per_operator device seed")
@click.argument("source", type=PLACE, metavar="RUN")
@click.option(
    "--model", "models", multiple=True, metavar="KIND:PATH", help="Model to score, as above. May be repeated."
)
@options.several("--operator", "operators", "Only negatives of this operator; default: all.")
@click.option("--lists", type=FOLDER, metavar="DIR", help="Write images.txt and texts.txt, the rows for npy, and stop.")
@options.as_json
@options.quiet
def score(
    source: Path, models: tuple[str, ...], lists: Path | None, as_json: bool, quiet: bool, **given: FlagValue
) -> None:
    """Score vision-language models on negatives.

    RUN is a run, or a folder or file that negcap publish wrote (or SugarCrepe, ARO, Winoground …). Prints how often the
    image is nearer to the caption than to its negative, how often it ranks its captions first, and more, by operator
    and family, with 95 % bootstrap intervals over images. Next to each figure are the score of the same model without
    the image and that of the best text-only baseline.

    For retrieval with a model of `negcap train`, use `negcap evaluate`; to measure the negatives themselves rather than
    a model, use `negcap blind` or `negcap vet`.

    Models: hf:FOLDER or hf:NAME (transformers), open_clip:ARCHITECTURE:WEIGHTS, sentence-transformers:FOLDER,
    negcap:FOLDER (of negcap train), npy:IMAGES,TEXTS (vectors made elsewhere), endpoint:URL#MODEL (an OpenAI-compatible
    chat API, asked six questions per pair; key in OPENAI_API_KEY). NAME, and WEIGHTS that are no file, must be in the
    local cache of the hub of Hugging Face; nothing is downloaded. Vectors and answers are kept in the run, so that
    another protocol, or an interrupted run, does not compute or ask them again.

    \b
    Example: negcap score outputs/mine --model hf:openai/clip-vit-base-patch32 --images photos --split test
    """
    from ..engine.progress import report
    from ..score import score as scoring
    from ..score.test_set import ScoreConfig

    config = ScoreConfig.of(given)
    if lists is not None:
        for file in scoring.write_lists(source, lists, config):
            print(file)
        return
    if not models:
        raise ValueError("score needs a model: --model KIND:PATH, e.g. --model hf:openai/clip-vit-base-patch32")
    scores = scoring.score(source, models, config, report(quiet))
    print(json.dumps(scores, indent=1, ensure_ascii=False) if as_json else scoring.to_text(scores))


@negcap.command(
    configs="models.settings:ClipConfig",
    flags="images objective train_splits refined negative_families negative_operators epochs learning_rate seed device",
)
@options.run
@output
@click.option("--model", metavar="KIND:PATH", help="CLIP to fine-tune, as above; default: a tiny random one.")
@overwrite
@options.quiet
def finetune(run: Path, output: Path, overwrite: bool, quiet: bool, **given: FlagValue) -> None:
    """Train a CLIP on pictures, captions and negatives.

    Fine-tunes a CLIP from local files, hf:FOLDER (transformers) or open_clip:FOLDER or open_clip:ARCHITECTURE:WEIGHTS
    (OpenCLIP), or trains a tiny one from random weights, with the loss of CLIP (infonce), SigLIP, NegCLIP, CE-CLIP or
    TripletCLIP. Writes the folder MODEL as transformers or OpenCLIP reads it: `negcap score RUN --model hf:MODEL`.

    \b
    Example: negcap finetune outputs/scenes --images outputs/scenes/images --output outputs/clip
    """
    from ..models.settings import ClipConfig

    config = ClipConfig.of(given, run=run, output=output)
    from ..models.clip.train import train_clip

    train_clip(config, overwrite=overwrite, say=say(quiet))
