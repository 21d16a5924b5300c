"""The command that scores models on negatives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import DEVICES
from .group import negcap
from .options import FOLDER, PLACE


@negcap.command()
@click.argument("source", type=PLACE, metavar="RUN")
@click.option(
    "--model", "models", multiple=True, metavar="KIND:PATH", help="Model to score; see above. May be repeated."
)
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Folder of the image files.")
@options.splits
@options.several("--operator", "operators", "Only negatives of this operator; default: all.")
@click.option("--refined", is_flag=True, default=None, help="Only negatives that negcap refine kept.")
@click.option("--per-caption", type=int, help="Negatives per caption and operator, the first drawn; default: all.")
@options.one_of("--device", DEVICES, "Where to compute; default: auto (a GPU where there is one).")
@options.settings(
    {
        "skip_missing": "true: leave out captions whose image file is missing",
        "precision": "what to compute in: auto (bfloat16 on a GPU, else float32), float32, bfloat16 or float16",
        "threads": "CPU threads; default: one per core",
        "batch": "images or texts computed at once; default: 64",
        "resamples": "of the bootstrap; default: 1000",
        "concurrency": "endpoint: requests in flight at once; default: 8",
        "timeout": "endpoint: seconds to wait for an answer; default: 120",
        "attempts": "endpoint: how often a request is sent before giving up; default: 6",
        "max_tokens": "endpoint: tokens of an answer; default: 16",
        "max_requests": "endpoint: requests in all, earlier ones included; default: no limit",
    }
)
@click.option("--lists", type=FOLDER, metavar="DIR", help="Write images.txt and texts.txt, the rows for npy, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--page", type=FOLDER, metavar="FILE", help="Write an HTML page of all models, too.")
@options.seed
@options.quiet
def score(
    source: Path,
    models: tuple[str, ...],
    lists: Path | None,
    as_json: bool,
    page: Path | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Score vision-language models on negatives.

    RUN is a run, or a folder or file that negcap publish wrote (or SugarCrepe, ARO, Winoground …). Prints how often the
    image is nearer to the caption than to its negative, ranks captions first among negatives, and more, by operator and
    family with 95 % bootstrap intervals over images; beside each the score of the same model without the image, and
    of the best of the baselines of negcap blind.

    Models: hf:FOLDER (transformers), open_clip:ARCHITECTURE:WEIGHTS, sentence-transformers:FOLDER, onnx:IMAGES,TEXTS
    (two ONNX files), negcap:FOLDER (of negcap train), npy:IMAGES,TEXTS (vectors made elsewhere), endpoint:URL#MODEL (an
    OpenAI-compatible chat API, asked six questions per pair; key in OPENAI_API_KEY). Vectors and answers are kept in
    the run, so that another protocol, or an interrupted run, does not compute or ask them again.

    \b
    Example: negcap score outputs/mine --model hf:clip-vit-base-patch32 --images photos --split test
    """
    from ..engine.progress import report
    from ..score.test_set import ScoreConfig

    config = ScoreConfig(**options.only_set(given))
    from ..score import score as scoring

    if lists is not None:
        for file in scoring.write_lists(source, lists, config):
            print(file)
        return
    if not models:
        raise ValueError("give a model: --model KIND:PATH")
    found = scoring.score(source, models, config, report(quiet))
    if page is not None:
        scoring.write_page(page, found)
    print(json.dumps(found, indent=1, ensure_ascii=False) if as_json else scoring.to_text(found))
