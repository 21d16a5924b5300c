"""Flags of the commands that train and evaluate models: of an evaluation, of UniVSE's composition, of a training."""

from __future__ import annotations

from pathlib import Path

import click

from . import options
from .choices import (
    COMPONENTS,
    COMPOSITIONS,
    DIVERSITIES,
    FALSE_WORDS,
    IMAGE_POOLINGS,
    OPERATORS,
    POOLINGS,
    RECIPES,
    REDUCTIONS,
    SELECTIONS,
    SIMILARITIES,
    TEXT_ENCODERS,
)
from .options import FOLDER


def _vector_files(ctx: click.Context, flag: click.Parameter, values: tuple[str, ...]) -> Path | None:
    """The file of --vectors FILE, or None; the files of --vectors CODE=FILE become the parameter other_vectors."""
    files: dict[str, Path] = {}
    for value in values:
        code, equals, file = value.partition("=")
        code, file = (code, file) if equals and code.isalpha() and len(code) <= 3 else ("", value)
        files[code] = FOLDER.convert(file, flag, ctx)
    first = files.pop("", None)
    ctx.params["other_vectors"] = tuple(files.items()) or None
    return first


attacks = options.together(
    click.option("--split", metavar="NAME", help="Split on which to evaluate; default: test."),
    click.option(
        "--captions-per-image",
        type=int,
        metavar="N",
        help="Evaluate only the first N captions of an image; the papers use 5; default: all.",
    ),
    click.option(
        "--complete",
        type=int,
        metavar="N",
        help="Evaluate only images all of whose captions have N negatives of each of VSE-C's families (20 in its "
        "tables); default: all.",
    ),
    click.option("--per-family", type=int, help="Negatives per caption and family in VSE-C's attack; default: 20."),
    click.option("--per-attack", type=int, help="Negatives per caption and operator in UniVSE's attack; default: 5."),
)
composing = options.together(
    options.several(
        "--component",
        "components",
        "UniVSE: component added to the sentence in a caption's vector; default: all.",
        choices=COMPONENTS,
        empty="none",
    ),
    click.option("--alpha", type=float, help="UniVSE: weight of the sentence in that vector, 0 to 1; default: 0.75."),
    click.option(
        "--drop-components",
        type=float,
        metavar="SHARE",
        help="UniVSE: leave out this share of the attributes and of the relations, at random; default: 0.",
    ),
)
training = options.together(
    options.one_of(
        "--recipe",
        RECIPES,
        "Settings of those that are not given: negcap's, or the paper's of the model; default: house.",
    ),
    click.option("--epochs", type=int, help="Epochs in all, finished ones included; default: 30, univse 13, mha-d 20."),
    click.option("--batch-size", type=int, help="Image-caption pairs per batch; default: 128."),
    options.train_splits,
    click.option("--validation-split", metavar="NAME", help="Split whose rsum selects the epoch; default: val."),
    options.validation_images,
    click.option(
        "--extra", metavar="TABLE", help="Table of more captions to train on, e.g. generated (see negcap caption)."
    ),
    click.option(
        "--extra-share", type=float, metavar="SHARE", help="Share of these captions that an epoch visits; default: 1."
    ),
    click.option(
        "--judge",
        "judges",
        type=FOLDER,
        multiple=True,
        callback=lambda ctx, flag, values: values or None,
        metavar="MODEL",
        help="Use only those of these captions that a model trained with --leave-out, without their image, finds true "
        "of it. May be repeated.",
    ),
    click.option(
        "--judge-rank", type=int, metavar="N", help="Their image must be among the N nearest; default: 1, the nearest."
    ),
    click.option(
        "--leave-out", metavar="K/N", help="Leave out part K, from 0, of N parts of the train images; default: none."
    ),
    click.option(
        "--train-captions", type=int, metavar="N", help="Train on only the first N captions of an image; default: all."
    ),
    click.option("--negatives", type=int, help="vse-c: negatives per caption, new in every batch; default: 8."),
    options.several(
        "--negative-operator",
        "negative_operators",
        "vse-c: train on negatives of this operator; default: those of presets vse-c and vse-c-paper.",
        choices=OPERATORS,
    ),
    click.option(
        "--share-negatives/--own-negatives",
        default=None,
        help="vse-c: compare an image with the negatives of all captions of the batch, or of its own; default: own.",
    ),
    click.option("--negatives-after", type=int, help="vse-c: first epochs without negatives; default: 0."),
    options.concreteness_margin,
    options.one_of("--select", SELECTIONS, "What selects the epoch, without or with negatives; default: rsum."),
    click.option("--joint", type=int, help="Dimensions of the joint space; default: 1024."),
    click.option("--word-dim", type=int, help="Dimensions of the word vectors; default: 300."),
    options.one_of("--text-encoder", TEXT_ENCODERS, "What reads a caption's words; mha-d: attention; default: gru."),
    click.option(
        "--bidirectional/--forward", default=None, help="Directions of the GRU; default: bidirectional, univse forward."
    ),
    options.one_of(
        "--similarity", SIMILARITIES, "How images and texts are compared; default: cosine, order for the model order."
    ),
    options.one_of("--pooling", POOLINGS, "How the GRU's states become one vector; default: max, univse last."),
    options.transform,
    click.option("--features", metavar="NAME", help="Use the table features_NAME; default: features."),
    options.one_of(
        "--image-pooling",
        IMAGE_POOLINGS,
        "How a grid or crops become one vector; default: average, univse max-k.",
    ),
    click.option(
        "--vectors",
        multiple=True,
        callback=_vector_files,
        metavar="[CODE=]FILE",
        help="Word vectors to start from: GloVe's text form or npz; de=FILE: of mha-d's further language de.",
    ),
    click.option(
        "--tune-vectors/--keep-vectors",
        default=None,
        help="Train the vectors of FILE, too, or keep them as they are; default: tune, univse keep.",
    ),
    click.option(
        "--grounded-dim",
        type=int,
        help="Learned numbers joined to the vector of each word in FILE; default: 0, vse-c with --recipe paper 100.",
    ),
    options.min_count,
    options.several(
        "--language",
        "languages",
        "ISO 639 code of the captions' language; only mha-d takes several; default: en, mha-d en and de.",
    ),
    click.option("--learning-rate", type=float, help="Learning rate of Adam; default: 1e-3."),
    click.option(
        "--constant", type=int, help="Epochs before the learning rate first falls; default: as --decay-every, univse 6."
    ),
    click.option("--decay", type=float, help="Factor by which the learning rate falls; default: 0.1, univse 0.5."),
    click.option("--decay-every", type=int, help="Epochs from one fall to the next; default: 15, univse 1."),
    click.option(
        "--warm-up",
        type=int,
        help="First epochs with the sum of hinges instead of the hardest; default: 1, similarities of the order 3.",
    ),
    click.option("--margin", type=float, help="Margin of the hinge loss; default: 0.2, order and order-reversed 0.05."),
    click.option("--weight-decay", type=float, help="Factor of the L2 penalty in Adam; default: 0."),
    click.option("--clip", type=float, help="Maximum norm of the gradients (clipping); default: 2."),
    click.option("--dropout", type=float, help="Fraction of image features set to 0 in training; default: 0.2."),
    click.option("--average", type=float, help="Decay per step of the moving average of the weights; default: 0.998."),
    composing,
    options.several(
        "--contrast",
        "contrast",
        "UniVSE: component with a contrastive loss of its own; default: all.",
        choices=COMPONENTS,
        empty="none",
    ),
    options.one_of("--reduce-obj", REDUCTIONS, "UniVSE: what ℓ_obj takes of the 16 false nouns; default: hardest."),
    options.one_of("--reduce-attr", REDUCTIONS, "UniVSE: what ℓ_attr takes of each kind of negatives; default: mean."),
    options.one_of("--reduce-rel", REDUCTIONS, "UniVSE: what ℓ_rel takes of each kind of negatives; default: mean."),
    options.one_of(
        "--false-words",
        FALSE_WORDS,
        "UniVSE: attributes and relations that make a negative: those that exclude the true one, or, as in the paper, "
        "any that the image's captions do not state; default: rivals.",
    ),
    click.option("--temperature", type=float, help="UniVSE: temperature of the relevance of regions; default: 1."),
    options.one_of("--composition", COMPOSITIONS, "UniVSE: how components become one vector; default: average."),
    click.option(
        "--weights",
        type=float,
        nargs=4,
        metavar="COMP OBJ ATTR REL",
        help="UniVSE: weights η of ℓ_comp, ℓ_obj, ℓ_attr and ℓ_rel; default: 0.5 0.5 0.5 1.",
    ),
    click.option(
        "--learn-alpha/--fixed-alpha",
        default=None,
        help="UniVSE: train the weight of the sentence, or not; default: fixed.",
    ),
    click.option("--heads", type=int, help="mha-d: attention heads, each of --joint dimensions; default: 3."),
    click.option("--attention-dim", type=int, help="mha-d: rows of the heads' matrices; default: as --joint."),
    click.option("--region-tanh/--no-region-tanh", default=None, help="mha-d: tanh over mapped regions; default: no."),
    click.option("--gamma", type=float, help="mha-d: factor of the loss between two languages; default: 0.6."),
    options.one_of(
        "--diversity", DIVERSITIES, "mha-d: hinge that keeps heads apart, see the documentation; default: distance."
    ),
    click.option("--diversity-margin", type=float, help="mha-d: margin of these hinges; default: 0.1."),
    click.option("--diversity-weight", type=float, help="mha-d: factor of these hinges; default: 1."),
    click.option("--amp/--no-amp", default=None, help="Compute in bf16 on a GPU; default: amp."),
    click.option("--overwrite", is_flag=True, help="Replace a model that was trained with other data or settings."),
    options.quiet,
)
