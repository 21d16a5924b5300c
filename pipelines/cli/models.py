"""Commands that train, evaluate and examine models."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..models.registry import MODELS, RECIPES
from . import options
from .group import Command, negcap, say
from .options import FOLDER, PLACE, PROBES

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

TRAINED = (
    "epochs batch_size joint learning_rate negative_families negative_operators similarity features vectors languages "
    "seed device threads"
)  # settings of a training that have flags of their own
COMPARED = "split captions_per_image complete per_family per_attack".split()  # of the evaluation of several models
overwrite = click.option(
    "--overwrite", is_flag=True, help="Replace a model that was trained with other data or settings."
)
output = options.folder("Folder of the model to write; of several, of their folders and the tables.", metavar="MODEL")
results = options.folder("Folder of the results.")


def evaluated(run: Path, given: dict[str, Any]) -> dict[str, Any]:
    """The settings of an evaluation, on the default split or the only one that is not a train split, as it says."""
    from ...schemas.captions import TRAIN_SPLITS
    from ..models.config import EvaluateConfig
    from ..tables.columns import splits_of

    default, splits = EvaluateConfig.of({}).split, splits_of(run)
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

        found = {name: EvaluateConfig.model_fields[name] for name in COMPARED}
        for kind in CONFIGS.values():
            found |= kind.model_fields
        return {name: field for name, field in found.items() if name not in ("run", "output", "model")}

    def of_field(self, name: str) -> dict[str, Any]:
        """The defaults of single models."""
        from ..models.config import DEFAULTS

        return {"of_models": DEFAULTS}

    def rarer(self, ctx: click.Context) -> list[tuple[str, str]]:
        """The settings of the model that --model names before --help."""
        named = (ctx.params.get("models") or ("vse++",))[0]
        return settings_of(max((model for model in MODELS if named.startswith(model)), key=len, default="vse++"))


def settings_of(model: str) -> list[tuple[str, str]]:
    """The settings without a flag of a model: each as `name=default`, and its description."""
    from ..models.config import CONFIGS, configure

    made = vars(configure(Path(), Path(), model))
    fields = CONFIGS[model].model_fields
    names = [name for name in fields if name not in ("run", "output", "model", *TRAINED.split())]
    return [(f"{name}={options.as_text(made[name])}", fields[name].description or "") for name in names]


@negcap.command(cls=TrainCommand, configs="models.config:TrainConfig", flags=f"{TRAINED} split")
@options.run
@options.several(
    "--model",
    "models",
    f"Kind of model: {', '.join(MODELS)}; vse-c+FAMILY: with negatives of this family; then ~order: with this "
    "similarity; then @paper: its paper's recipe; default: vse++. Several are compared.",
    is_eager=True,
)
@click.option("--seeds", type=int, help="Trainings per model, with seeds 0, 1, …, which are compared.")
@output
@options.one_of(
    "--recipe", RECIPES, "Settings of those that are not given: negcap's, or the paper's of the model; default: house."
)
@overwrite
@options.quiet
def train(run: Path, models: tuple[str, ...] | None, seeds: int | None, output: Path, **given: Any) -> None:
    """Train an embedding of images and captions, or compare several.

    VSE, VSE++, VSE-C with negatives of the run, or UniVSE with components. Reads captions, features, and negatives or
    components. Writes weights, metrics.jsonl and curves.png to the folder MODEL. An interrupted training continues
    after its last complete epoch.

    Several models, or --seeds, are trained and evaluated side by side: retrieval, plain and under attack, as in the
    papers' tables, printed as Markdown. Trained models are kept. A setting is for those models that have it.

    \b
    Example: negcap train outputs/mine --model vse-c --output outputs/vse-c --negative-family noun --set margin=0.1
    """
    from ...augment.settings import given_only
    from ..models.config import EvaluateConfig, configure, lacking_of_recipe

    shown: dict[str, Any] = {"overwrite": given.pop("overwrite"), "say": say(given.pop("quiet"))}
    given = given_only(given)
    evaluation = {name: given.pop(name) for name in COMPARED if name in given}
    model, *others = models or ("vse++",)
    if seeds is None and not others and model in MODELS:
        if evaluation:
            raise ValueError(f"{', '.join(evaluation)} is of a comparison: give several models, or --seeds")
        config = configure(run, output, model, **given)
        if lacking := lacking_of_recipe(model, given.get("recipe", ""), config.vectors):
            shown["say"](lacking)
        from ..models.trainer.train import train as fit

        fit(config, **shown)
        return
    if "seed" in given:
        raise ValueError("seed is of one training: models that are compared have the seeds 0, 1, …, see --seeds")
    from ..models.trainer.compare import compare

    evaluation = evaluated(run, evaluation) | {name: given[name] for name in ("device", "threads") if name in given}
    how, repeated = EvaluateConfig.of(evaluation), 1 if seeds is None else seeds
    print(compare(run, output, (model, *others), how, given, repeated, **shown))


@negcap.command(
    configs="models.config:EvaluateConfig models.config:SimilarityConfig models.settings:CaptionerEvaluateConfig",
    flags="split limit captions_per_image complete per_family per_attack components alpha drop_components instances "
    "ranker n language seed device threads",
)
@options.model
@click.argument("source", type=PLACE, metavar="RUN")
@options.folder("Folder of the results; default: MODEL/evaluation.", required=False)
def evaluate(model: Path, source: Path, output: Path | None, **given: Any) -> None:
    """Evaluate a model: retrieval, plain and under attack.

    Recalls, ranks and 95 % intervals: without negatives; with the negatives of each image's own captions (VSE-C's
    protocol) or of all captions (UniVSE's) among the candidates; on captions with a number above one; and how often a
    caption scores above its negative. If the run has components, also retrieval by objects, attributes and relations;
    for UniVSE also by alpha, and how well the image tells which components belong together. Prints Markdown, and writes
    it with JSON and the ranks (Parquet) to --output.

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

    if source.is_file():
        pairs = SimilarityConfig.of(given)
        from ..models.trainer.sentence_similarity import similarity

        print(similarity(model, source, pairs, output))
        return
    if is_captioner(model):
        written = CaptionerEvaluateConfig.of(given)
        from ..models.captioner.evaluate import evaluate as evaluate_captions

        print(evaluate_captions(model, source, written, output))
        return
    config = EvaluateConfig.of(evaluated(source, given))
    from ..engine.storage import refuse_link
    from ..models.trainer.evaluate import measure, write_evaluation

    print(write_evaluation(measure(model, source, config), output or refuse_link(model / "evaluation")))


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
    task: str, run: Path, models: tuple[Path, ...], output: Path | None, photos: Path | None, quiet: bool, **given: Any
) -> None:
    """See what models have learned.

    words: which objects does an image show (VSE-C's Table 6)? blanks: which noun or preposition is missing in a caption
    of the image (Table 7)? One row for the word vectors of --vectors, one for each model, whose learned word vectors
    are joined to them, and baselines.

    saliency: by operator, the share of the saliency (the gradient of the similarity to the vectors of the words,
    VSE-C's equation 4) that is on the words put in by an edit, and the share that chance gives; saliency.png has some
    negatives with the shares of their words, and over the photos those of the regions of a grid.

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


@negcap.command(configs="score.test_set:ScoreConfig", flags="images splits refined per_caption device seed")
@click.argument("source", type=PLACE, metavar="RUN")
@click.option(
    "--model", "models", multiple=True, metavar="KIND:PATH", help="Model to score; see above. May be repeated."
)
@options.several("--operator", "operators", "Only negatives of this operator; default: all.")
@click.option("--lists", type=FOLDER, metavar="DIR", help="Write images.txt and texts.txt, the rows for npy, and stop.")
@options.as_json
@options.quiet
def score(source: Path, models: tuple[str, ...], lists: Path | None, as_json: bool, quiet: bool, **given: Any) -> None:
    """Score vision-language models on negatives.

    RUN is a run, or a folder or file that negcap publish wrote (or SugarCrepe, ARO, Winoground …). Prints how often the
    image is nearer to the caption than to its negative, ranks captions first among negatives, and more, by operator and
    family with 95 % bootstrap intervals over images; beside each the score of the same model without the image, and
    of the best of the baselines of negcap blind.

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
        raise ValueError("give a model: --model KIND:PATH")
    found = scoring.score(source, models, config, report(quiet))
    print(json.dumps(found, indent=1, ensure_ascii=False) if as_json else scoring.to_text(found))


@negcap.command(
    configs="models.settings:ClipConfig",
    flags="images objective train_splits refined negative_families negative_operators epochs learning_rate seed device",
)
@options.run
@output
@click.option("--model", metavar="KIND:PATH", help="CLIP to fine-tune, see below; default: a tiny random one.")
@overwrite
@options.quiet
def finetune(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
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


@negcap.command(configs="models.settings:HypernymConfig", flags="rows false_pairs seeds epochs concepts device threads")
@results
@options.quiet
def hypernyms(output: Path, quiet: bool, **given: Any) -> None:
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
def entail(train: Path, validation: Path, test: Path, output: Path, quiet: bool, **given: Any) -> None:
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
