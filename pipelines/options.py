"""The flags of the command line, each defined once and shared by the verbs that know it.

A flag is named as the field of the config it sets. Its default stands in the config: a flag that is not given sets
nothing. What may be chosen from (formats, operators) is checked by the configs, which list the valid names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Names(click.ParamType):
    """Comma-separated names: `noun,shuffle`; `empty` stands for no name at all."""

    name = "a,b"

    def __init__(self, empty: str | None = None) -> None:
        self.empty = empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names as a tuple; an empty one is an error."""
        names = tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else tuple(value)
        if names == (self.empty,):
            return ()
        if not all(names):
            self.fail(f"must be names between commas, was: {value}", param, ctx)
        return names


def together(*options: Decorator) -> Decorator:
    """Several flags as one decorator, shown in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


FOLDER = click.Path(path_type=Path)

run = click.argument("run", type=FOLDER)
output = click.option("--output", "run", type=FOLDER, required=True, metavar="RUN", help="Folder of the run.")

ingest = together(
    click.option("--format", help="coco, karpathy, flickr, multi30k, vsepp or table; default: told from the content."),
    click.option("--image-column", help="Column of the image in a CSV, TSV, JSONL or Parquet table."),
    click.option("--caption-column", help="Column of the caption in such a table."),
    click.option("--split-column", help="Column of the split in such a table, if it has one."),
    click.option("--language", help="ISO 639-1 code of the captions; default: en."),
    click.option("--source-name", help="First part of every caption_id; default: the format."),
    click.option("--limit", type=int, help="Only the first N images."),
    click.option("--shard-size", type=int, help="Captions a shard, at most, of whole images; default: 1000."),
    click.option("--strict", is_flag=True, default=None, help="Stop at the first bad record instead of rejecting it."),
)
parse = click.option("--spacy-model", help="An installed spaCy pipeline or its folder; default: the shipped parser.")
lexicon = together(
    click.option("--min-count", type=int, help="Occurrences that make a noun a replacement; default: by corpus size."),
    click.option("--theta", type=float, help="Least concreteness of a replacement noun; default: 0.6."),
    click.option("--attributes", metavar="FILE", help="The attributes to use, one a line; default: the frequent ones."),
    click.option("--concreteness", metavar="FILE", help="Norm list (word, tab, score) instead of the shipped score."),
)
frequent = together(
    click.option("--min-count", type=int, help="Occurrences that make a word frequent; default: by corpus size."),
    click.option("--theta", type=float, help="Least concreteness of a noun; default: 0.6."),
    click.option("--concreteness", metavar="FILE", help="Norm list (word, tab, score) instead of the shipped score."),
)
with_components = click.option("--components", is_flag=True, help="Make the tables of components, too.")
components = click.option(
    "--simple", is_flag=True, default=None, help="As UniVSE trains: names of one word, a thing's first attribute only."
)
truth = click.option("--truth-sample", type=int, help="Captions that truth is estimated on; default: 15000.")
max_true = click.option("--max-true", type=float, help="Most that a negative may be likely true; default: 0.025.")
balance = click.option("--sample", type=int, help="Captions that the balance is fitted on; default: 10000.")
seed = click.option("--seed", type=int, help="Another seed, another choice; default: 0.")
negatives = together(
    click.option("--preset", help="The operators of a paper: vse-c or univse; or all. Default: vse-c."),
    click.option("--operators", type=Names(), help="Operators to run, e.g. noun,shuffle, instead of a preset."),
    click.option("--per-family", type=int, help="Negatives a caption and family, at most; default: 20."),
    seed,
)
blind = together(
    click.option("--operators", type=Names(), help="Only these operators; default: all."),
    click.option("--split", "splits", multiple=True, help="Only rows of this split; may be repeated."),
    click.option("--refined", "table", flag_value="refined", help="Measure what negcap refine kept."),
    click.option("--pick", help="Which negative of a caption: first (the fair draw) or random; default: first."),
    click.option("--limit", type=int, help="Pairs an operator at most, of random images; default: 100000."),
    click.option("--json", "as_json", is_flag=True, help="Everything as JSON, intervals and cues included."),
    seed,
)
refine = together(
    click.option("--operators", type=Names(), help="Only these operators; default: all."),
    click.option("--splits", type=Names(), help="Only rows of these splits; default: all."),
    click.option("--candidates", type=int, help="Draws of a caption and operator to choose from; default: 10."),
    click.option("--flows", type=Names(), help="Operators kept with A for B as often as B for A; default: numeral."),
    click.option("--rounds", type=int, help="How often the blind models are fitted again, at most; default: 8."),
    seed,
)
quiet = click.option("--quiet", is_flag=True, help="No progress on stderr.")
overwrite = click.option("--overwrite", is_flag=True, help="Replace tables made with another config or input.")
workers = together(
    click.option("--workers", type=int, help="Worker processes; default: one a core."),
    click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port; or synchronous."),
    overwrite,
    quiet,
)
features = together(
    click.option("--array", help="Of a VSE++ folder, the arrays SPLIT_ARRAY.npy; default: ims."),
    click.option("--scale", type=FOLDER, metavar="FILE", help="Scale of uint8 arrays; default: ARRAY_scale.npz there."),
    click.option("--backbone", help="What made the arrays, for the metadata."),
    click.option("--onnx", type=FOLDER, metavar="MODEL", help="Extract from photos with this ONNX model."),
    click.option("--layer", help="A tensor or node of the model; default: its first output."),
    click.option("--images", type=FOLDER, metavar="FOLDER", help="The photos of a run's captions."),
    click.option("--grid", is_flag=True, default=None, help="The regions of the layer instead of their mean."),
    click.option("--ten-crop", is_flag=True, default=None, help="The mean of ten crops instead of the centre."),
    click.option("--resize", type=int, help="Pixels of a photo's shorter side; default: 256."),
    click.option("--crop", type=int, help="Pixels of a crop's sides; default: 224."),
    click.option("--batch", type=int, help="Crops at once; default: 32."),
    click.option("--device", help="cpu or cuda; default: cpu."),
    click.option("--threads", type=int, help="Threads that read photos and run the model; default: one a core."),
    click.option("--dtype", help="float16 or float32; default: float16 of float16 and uint8, else float32."),
    click.option("--table", help="Table to write: features, or features_NAME; default: features."),
    click.option("--limit", type=int, help="Only the first N images."),
    click.option("--per-shard", "shard_size", type=int, help="Images a shard, at most; default: 64 MiB or 1000."),
    click.option("--strict", is_flag=True, default=None, help="Stop at the first bad image instead of rejecting it."),
)
scenes = together(
    click.option("--images", type=int, help="Scenes to draw; default: 2000."),
    seed,
)
audit = together(
    click.option("--output", type=FOLDER, metavar="DIR", help="Folder to write to; default: audit in the run."),
    click.option("--n", type=int, help="Random negatives an operator, thrice the refusals a reason; default: 12."),
    click.option("--refined", is_flag=True, default=None, help="Plot and show what negcap refine kept."),
    click.option("--split", "splits", multiple=True, help="Only rows of this split; may be repeated."),
    click.option("--no-blind", "blind", flag_value=False, default=None, help="Leave the blind baselines out."),
    click.option("--limit", type=int, help="Pairs an operator at most for the baselines; default: 100000."),
    click.option("--title", help="Title of the page."),
    seed,
    quiet,
)
sheet = together(
    click.option("--output", type=FOLDER, required=True, metavar="FILE", help="CSV to write the sheet to."),
    click.option("--key", type=FOLDER, metavar="FILE", help="CSV of the answers; default: sheet.key.csv beside it."),
    click.option("--n", type=int, help="Pairs an operator, and as many controls; default: 50."),
    click.option("--operators", type=Names(), help="Only these operators; default: all."),
    click.option("--split", "splits", multiple=True, help="Only rows of this split; may be repeated."),
    click.option("--refined", is_flag=True, default=None, help="Of what negcap refine kept."),
    click.option("--votes", type=int, help="Annotators with columns in this one sheet; default: 1."),
    seed,
    click.option("--overwrite", is_flag=True, help="Replace a sheet and key that are there."),
)
agree = together(
    click.argument("sheets", type=FOLDER, nargs=-1, required=True),
    click.option("--key", type=FOLDER, metavar="FILE", help="The key; default: the only *.key.csv beside the sheet."),
    click.option("--json", "as_json", is_flag=True, help="As JSON, with the ids of the negatives found not valid."),
)
publish = together(
    click.option(
        "--format",
        required=True,
        help="sugarcrepe, sugarcrepe++, aro, crepe, negclip, open_clip, vse-c, webdataset, huggingface or coco.",
    ),
    click.option("--output", type=FOLDER, required=True, metavar="DIR", help="Folder to publish in, empty or new."),
    click.option("--license", required=True, help="Terms for captions and images: an SPDX id, a URL or a name."),
    click.option("--split", type=Names(), help="Only these splits, e.g. test; default: all."),
    click.option("--operators", type=Names(), help="Only negatives of these operators; default: all."),
    click.option("--refined", is_flag=True, default=None, help="Publish what negcap refine kept."),
    click.option("--per-caption", type=int, help="Negatives a caption and operator; default: as the format has it."),
    click.option("--pick", help="Which of them: the first draws (first) or random; default: first."),
    seed,
    click.option("--images", type=FOLDER, metavar="FOLDER", help="Where the image files are."),
    click.option("--copy-images", is_flag=True, default=None, help="Publish the image files too, in images/."),
    click.option("--skip-missing", is_flag=True, default=None, help="Leave out captions whose image is not there."),
    click.option(
        "--boxes", type=FOLDER, metavar="FILE", help="CSV of image_id,x,y,width,height instead of whole images."
    ),
    click.option("--max-blind", type=float, help="Most that a blind baseline may tell, in %; default: 60."),
    click.option("--allow-blind", is_flag=True, default=None, help="Publish above that; the card says so."),
    click.option("--skip-leaks", is_flag=True, default=None, help="Leave out test captions that stand in train."),
    click.option("--name", help="Name of the set; default: negcap-FORMAT."),
    click.option("--url", help="Where it will be found, for the Croissant metadata."),
    click.option("--creator", help="Who publishes it, for the Croissant metadata."),
    click.option("--date", metavar="YYYY-MM-DD", help="Date of publication, for the Croissant metadata."),
    click.option("--cite", help="How to cite it, for the Croissant metadata."),
    click.option("--overwrite", is_flag=True, help="Replace what is published there; files of others stay."),
    quiet,
)
model = click.argument("model", type=FOLDER)
reading = together(
    click.option("--components", type=Names("none"), help="UniVSE: of a caption, of obj,attr,rel; none; default: all."),
    click.option("--alpha", type=float, help="UniVSE: share of the sentence in a caption; default: 0.75."),
)
training = together(
    click.option("--epochs", type=int, help="How many, those done before included; default: 30; univse: 13."),
    click.option("--batch-size", type=int, help="Pairs of image and caption at a time; default: 128."),
    click.option("--train-split", "train_splits", type=Names(), help="To train on; default: train,restval."),
    click.option("--validation-split", help="Whose rsum selects the epoch; default: val."),
    click.option("--validation-images", type=int, help="Held out where there is no such split; default: 500."),
    click.option("--extra", metavar="TABLE", help="Captions to train on too, as negcap caption writes: generated."),
    click.option("--negatives", type=int, help="Negatives a caption, drawn afresh each time (vse-c); default: 8."),
    click.option("--negative-operators", type=Names(), help="By these operators; default: those of preset vse-c."),
    click.option("--joint", type=int, help="Size of the joint space; default: 1024."),
    click.option("--word-dim", type=int, help="Size of the word vectors; default: 300."),
    click.option("--bidirectional/--forward", default=None, help="Of the GRU; default: both; univse: forward."),
    click.option("--pooling", help="Of its states: max or last; default: max; univse: last."),
    click.option("--transform", help="Of the image features: root (then length 1) or none; default: root."),
    click.option("--features", help="Their table: features, or NAME for features_NAME; default: features."),
    click.option("--image-pooling", help="Of a grid: average, max or max-k; default: average; univse: max-k."),
    click.option("--vectors", type=FOLDER, metavar="FILE", help="Word vectors to begin with, GloVe's text or npz."),
    click.option("--tune-vectors/--keep-vectors", default=None, help="Train on them; default: yes."),
    click.option("--min-count", type=int, help="Occurrences in the train captions that make a word; default: 4."),
    click.option("--learning-rate", type=float, help="Of Adam; default: 1e-3."),
    click.option("--constant", type=int, help="Epochs before it falls; default: as --decay-every; univse: 6."),
    click.option("--decay", type=float, help="What it is multiplied with when it falls; default: 0.1; univse: 0.5."),
    click.option("--decay-every", type=int, help="Epochs between two falls; default: 15; univse: 1."),
    click.option("--warm-up", type=int, help="First epochs with the sum of hinges; default: 1."),
    click.option("--margin", type=float, help="Of the hinges; default: 0.2."),
    click.option("--clip", type=float, help="Norm that gradients are clipped to; default: 2."),
    click.option("--dropout", type=float, help="Share of an image's features that is 0 in training; default: 0.2."),
    click.option(
        "--average", type=float, help="Share that stays in the mean of the weights at a step; default: 0.998."
    ),
    reading,
    click.option("--contrast", type=Names("none"), help="UniVSE: trained beside captions, likewise; default: all."),
    click.option("--temperature", type=float, help="UniVSE: of the relevance of regions; default: 1."),
    click.option("--composition", help="UniVSE: of a caption's components: average, sum or max; default: average."),
    click.option("--amp/--no-amp", default=None, help="bf16 on a GPU; default: yes."),
    click.option("--overwrite", is_flag=True, help="Replace a model that was trained otherwise."),
    quiet,
)
train = together(
    click.option("--model", help="vse, vse++, vse-c or univse; default: vse++."),
    click.option("--output", type=FOLDER, required=True, metavar="MODEL", help="Folder of the model."),
    click.option("--negative-families", type=Names(), help="Of these families; default: noun,numeral,relation."),
    seed,
    training,
)
protocols = together(
    click.option("--split", help="What to evaluate on; default: test."),
    click.option("--per-family", type=int, help="Negatives a caption and family (VSE-C's attack); default: 20."),
    click.option("--per-attack", type=int, help="Negatives a caption and operator (UniVSE's attack); default: 5."),
)
compare = together(
    click.option("--output", type=FOLDER, required=True, metavar="DIR", help="Folder of the models and the tables."),
    click.option(
        "--variants", type=Names(), help="Models, +family for negatives of it alone: vse,vse++,vse-c+noun,vse-c …"
    ),
    click.option("--seeds", type=int, help="Trainings of each, with seeds 0, 1 …; default: 1."),
    protocols,
    click.option("--readme", type=FOLDER, metavar="FILE", help="A Markdown file to put the tables into, too."),
    training,
)
captioner = together(
    click.option("--output", type=FOLDER, required=True, metavar="MODEL", help="Folder of the captioner."),
    click.option("--mle-epochs", type=int, help="Of likelihood; default: 20."),
    click.option("--discriminator-epochs", type=int, help="Of the discriminator alone; default: 5."),
    click.option("--gan-epochs", type=int, help="Of the policy gradient, those done before included; default: 20."),
    click.option("--stages", type=int, help="Stages of such an epoch, with one discriminator step each; default: 20."),
    click.option("--generator-steps", type=int, help="Steps of the policy gradient a stage; default: 5."),
    click.option("--batch-size", type=int, help="Captions at a time; default: 64."),
    click.option(
        "--rollout-every", type=int, help="Words from one prefix that is gone on from to the next; default: 3."
    ),
    click.option("--rollouts", type=int, help="Ways to go on from each; default: 2."),
    click.option("--alpha", type=float, help="Weight of generated captions for the discriminator; default: 0.5."),
    click.option("--beta", type=float, help="Weight of mismatched captions for it; default: 0.5."),
    click.option("--train-split", "train_splits", type=Names(), help="To train on; default: train,restval."),
    click.option("--validation-split", help="Whose likelihood selects the generator; default: val."),
    click.option("--validation-images", type=int, help="Held out where there is no such split; default: 500."),
    click.option("--words", type=int, help="Most words of a caption, its end counted; default: 20."),
    click.option("--word-dim", type=int, help="Size of the word vectors; default: 256."),
    click.option("--hidden", type=int, help="Size of the generator's state; default: 256."),
    click.option("--joint", type=int, help="Size of the discriminator's space; default: 256."),
    click.option("--noise", type=int, help="Size of the noise; default: 64."),
    click.option("--dropout", type=float, help="Of words and states, for likelihood; default: 0.3."),
    click.option("--transform", help="Of the image features: root (then length 1) or none; default: root."),
    click.option("--min-count", type=int, help="Occurrences in the train captions that make a word; default: 4."),
    click.option("--learning-rate", type=float, help="Of the policy gradient (Adam); default: 1e-4."),
    click.option("--supervised-rate", type=float, help="Of likelihood and of the discriminator; default: 1e-4."),
    click.option("--clip", type=float, help="Norm that gradients are clipped to; default: 5."),
    click.option("--collapse", type=float, help="Share of distinct-2 under which training stops; default: 0.5."),
    seed,
    click.option("--overwrite", is_flag=True, help="Replace a captioner that was trained otherwise."),
    quiet,
)
assess = together(
    click.option("--output", type=FOLDER, metavar="DIR", help="Where the tables go; default: MODEL/evaluation."),
    click.option("--split", help="Whose images are written of; default: test."),
    click.option("--judge", type=FOLDER, metavar="MODEL", help="A model of negcap train, to rank images for captions."),
    click.option("--n", type=int, help="Captions an image, for self-BLEU; default: 3."),
    click.option("--width", type=int, help="Of the beam; default: 3."),
    click.option("--limit", type=int, help="Only the first N images of the split."),
    click.option("--images", type=FOLDER, metavar="FOLDER", help="Of the pictures: draws samples.png."),
    click.option("--shown", type=int, help="Pictures in it; default: 6."),
    seed,
)
caption = together(
    click.option("--phase", help="Whose generator: gan, or mle, before the policy gradient; default: gan."),
    click.option("--n", type=int, help="Captions an image; default: 3."),
    click.option("--decoding", help="sample, greedy or beam; default: sample."),
    click.option("--width", type=int, help="Of the beam; default: 3."),
    click.option("--tries", type=int, help="How often what is refused is drawn again; default: 4."),
    click.option("--splits", type=Names(), help="Of these splits; default: those the captioner was trained on."),
    click.option("--table", help="Table to write: generated, or generated_NAME; default: generated."),
    seed,
)
evaluate = together(
    click.option("--output", type=FOLDER, metavar="DIR", help="Where the tables go; default: MODEL/evaluation."),
    protocols,
    click.option("--limit", type=int, help="Only the first N images of the split."),
    reading,
    click.option("--spacy-model", help="For components of negatives, where the run was parsed by one in a folder."),
    click.option("--seed", type=int, help="Of the bootstrap; default: 0."),
)
picture = together(
    click.option("--output", type=FOLDER, metavar="DIR", help="Where they go; default: MODEL/pictures."),
    click.option("--images", "photos", type=FOLDER, metavar="FOLDER", help="Photos of the run's images, for the maps."),
    click.option("--query", "queries", multiple=True, help="What to look for: a black dog; may be repeated."),
    click.option("--best", type=int, help="Photos a query; default: 6."),
    parse,
    click.option("--seed", type=int, help="Of t-SNE; default: 0."),
)
device = together(
    click.option("--device", help="auto, cpu or cuda; default: auto."),
    click.option("--threads", type=int, help="Of the CPU; default: one a core."),
)
