"""The command that trains a CLIP on pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import CONTRASTIVE, FAMILIES, OPERATORS
from .group import negcap
from .options import FOLDER


@negcap.command()
@options.run
@click.option("--images", type=FOLDER, required=True, metavar="FOLDER", help="Folder of the image files.")
@click.option("--output", type=FOLDER, required=True, metavar="MODEL", help="Folder of the model to write.")
@click.option("--model", metavar="KIND:PATH", help="CLIP to fine-tune, see above; default: a tiny random one.")
@options.one_of("--objective", (*CONTRASTIVE, "triplet-clip"), "Loss; default: negclip.")
@options.several("--train-split", "train_splits", "Split to train on; default: train and restval.")
@click.option("--refined", is_flag=True, default=None, help="Only negatives that negcap refine kept.")
@options.several(
    "--negative-family",
    "negative_families",
    "Train on negatives of this family; default: noun, numeral, relation, attribute.",
    choices=FAMILIES,
)
@options.several(
    "--negative-operator",
    "negative_operators",
    "Train on negatives of this operator; default: preset vse-c, verb, attribute and swap_attribute.",
    choices=OPERATORS,
)
@click.option("--epochs", type=int, help="Passes over the images; default: 20.")
@click.option("--learning-rate", type=float, help="Highest learning rate of AdamW; default: 5e-4.")
@options.seed
@options.device
@options.overwrite
@options.quiet
@options.settings(
    {
        "validation_split": "split that selects the epoch to keep; default: val",
        "negatives": "negatives per caption, new in every epoch; default: 4",
        "batch_size": "images per batch, each with one caption; default: 64",
        "weight_decay": "weight decay of AdamW; default: 0.1",
        "size": "tiny CLIP: side of a picture in pixels; default: 96",
        "patch": "tiny CLIP: side of a patch in pixels; default: 24",
        "width": "tiny CLIP: width of the image transformer; the text's is half; default: 128",
        "layers": "tiny CLIP: layers of each transformer; default: 2",
        "heads": "tiny CLIP: attention heads; default: 4",
        "concreteness_margin": "negclip, ce-clip: margin of a cosine, times how concrete the new noun is; default: 0",
    }
)
def finetune(run: Path, images: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train a CLIP on pictures, captions and negatives.

    Fine-tunes a CLIP from local files, hf:FOLDER (transformers) or open_clip:FOLDER or open_clip:ARCHITECTURE:WEIGHTS
    (OpenCLIP), or trains a tiny one from random weights, with the loss of CLIP (infonce), SigLIP, NegCLIP, CE-CLIP or
    TripletCLIP. Writes the folder MODEL as transformers or OpenCLIP reads it: `negcap score RUN --model hf:MODEL`.

    \b
    Example: negcap finetune outputs/scenes --images outputs/scenes/images --output outputs/clip
    """
    from ..models.clip.config import ClipConfig

    config = options.config_of(ClipConfig, {"run": run, "images": images, "output": output, **given})
    from ..models.clip.train import train_clip

    train_clip(
        config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True)
    )
