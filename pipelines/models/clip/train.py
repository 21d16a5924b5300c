"""Train a CLIP on pictures and captions with negatives, and write it as a folder of Hugging Face."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ..batches import NONE
from ..checkpoint import epoch_seed, write_history
from ..device import choose_device
from ..evaluation.retrieval import rank, retrieval_metrics
from ..fit import Line, Step, fit
from ..losses import TERMS, compare, info_nce
from .config import TRIPLET, ClipConfig
from .data import Encoded, Pairs, batches, draw_counterparts, frequent_words, pool_of, read_counterparts, read_pairs
from .network import Clip, towers

WARM_UP = 0.05
MAX_NORM = 1.0
LEAST_PAIRS = 20


def train_clip(config: ClipConfig, *, overwrite: bool = False, say: Callable[[str], None] = print) -> Path:
    """Train a CLIP and return its folder: the weights of the epoch with the highest rsum on validation, its tokenizer
    and image processor as transformers or OpenCLIP reads them, and metrics.jsonl.

    On one machine's CPU the same config gives the same weights. overwrite: replace a model that is there. say: called
    with one line of progress per epoch. Raises FileNotFoundError and ValueError for a run, images or weights that lack
    what the training needs, FileExistsError for a folder that holds something, ImportError if a library is missing.
    """
    if config.output.exists() and any(config.output.iterdir()) and not overwrite:
        raise FileExistsError(f"{config.output} holds a model: --overwrite to replace it")
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    pairs = read_pairs(config, config.train_splits)
    pool = pool_of(pairs, config)
    clip = towers(config, frequent_words([*pairs.texts, *pairs.negatives]))
    data = Encoded(pairs, clip)
    others = read_counterparts(config, pairs.ids)
    pictures = Encoded(others, clip) if others else None
    held_out = read_pairs(config, [config.validation_split])
    validation = Encoded(held_out, clip)
    model = Clip(clip, config).to(device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [  # as in CLIP, only matrices decay, not biases, norms and the temperature
        {"params": [one for one in trained if one.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [one for one in trained if one.ndim <= 1], "weight_decay": 0.0},
    ]
    steps = config.epochs * sum(len(batch) > 1 for batch in torch.arange(len(pairs.files)).split(config.batch_size))

    def embedded(pixels: Tensor, *ids: Tensor) -> list[Tensor]:
        """Vectors of pictures, and of texts by their token ids."""
        with torch.autocast("cuda", torch.bfloat16, enabled=config.amp and device.type == "cuda"):
            texts = (model.texts(part.long().to(device)) if len(part) else torch.empty(0) for part in ids)
            return [model.images(pixels.to(device).float()), *texts]

    def epoch_batches(epoch: int) -> Iterator[tuple[Tensor, Generator]]:
        generator = Generator().manual_seed(epoch_seed(config.seed, epoch))
        model.train()
        for captions in batches(pairs, config, generator):
            yield captions, generator

    def step(batch: tuple[Tensor, Generator], epoch: int) -> Step:
        captions, generator = batch
        drawn = NONE if pool is None else pool.draw(captions, config.negatives, generator)
        image = pairs.image[captions]
        images, texts, false = embedded(
            data.pixels[image], data.captions[captions], data.negatives[drawn.negatives.rows]
        )
        same = (image[:, None] == image[None, :]).to(device)
        false = false if len(false) else texts[:0]
        logits = compare(images, texts, false, drawn, model.scale, same, config.concreteness_margin)
        terms = dict(TERMS["negclip" if config.objective == TRIPLET else config.objective](model, logits))
        if others is not None and pictures is not None:
            of, places = draw_counterparts(others.owner, captions, generator)
            # TripletCLIP's second term (Patel et al. 2024): NegCLIP's loss of the pictures of negatives, where the
            # captions are the negatives
            if len(of):
                images, texts, false = embedded(
                    pictures.pixels[of], pictures.captions[of], data.captions[captions[places]]
                )
                same = torch.eye(len(of), dtype=torch.bool, device=device)
                terms["counterparts"] = info_nce(model.scale * images @ texts.T, same, model.scale * images @ false.T)
        return Step(torch.stack(list(terms.values())).sum() / len(captions))

    def report(history: Sequence[Line]) -> None:
        write_history(config.output / "metrics.jsonl", list(history))
        line, best = history[-1], max(its["validation"]["rsum"] for its in history)
        rsum, right = line["validation"]["rsum"], line["validation"]["pairs"]["mean"]
        say(
            f"epoch {line['epoch']}: loss {line['loss']:.3f}, rsum {rsum:.1f} (best {best:.1f}), pairs right "
            f"{right:.1f} %, {line['seconds']:.0f} s"
        )

    fit(
        {"model": model},
        {"optimizer": torch.optim.AdamW(groups, config.learning_rate)},
        epoch_batches,
        step,
        config.epochs,
        clip=MAX_NORM,
        rate=lambda epoch, done: config.learning_rate * _rate(done, steps),
        evaluate=lambda line: {"validation": evaluate(model, held_out, validation, config, device)},
        select=lambda line: line["validation"]["rsum"],
        keep=lambda line: _save(config, model),
        report=report,
        say=say,
        about=f"{config.objective}: {len(pairs.texts):,} captions of {len(pairs.files):,} images",
    )
    return config.output


@torch.inference_mode()
def evaluate(model: Clip, pairs: Pairs, data: Encoded, config: ClipConfig, device: torch.device) -> dict[str, Any]:
    """Retrieval metrics (see `retrieval_metrics`), and `pairs`: by operator the percentage of captions that are nearer
    to their image than the first negative that the operator made of them, and the mean of these percentages.

    Operators with fewer than LEAST_PAIRS such captions are left out of the mean, unless all have so few.
    """
    model.eval()
    parts = torch.arange(len(data.pixels)).split(config.batch_size)
    images = torch.cat([model.images(data.pixels[part].to(device).float()) for part in parts])

    def embed(table: Tensor, rows: Tensor) -> Tensor:
        parts = rows.split(4 * config.batch_size)
        return torch.cat([model.texts(table[part].long().to(device)) for part in parts])

    captions = embed(data.captions, torch.arange(len(data.captions)))
    owner = pairs.image.to(device)
    metrics: dict[str, Any] = dict(retrieval_metrics(rank(images, captions, owner)))
    metrics["pairs"] = {}
    first = pairs.first.nonzero()[:, 0]
    if len(first):
        false, of = embed(data.negatives, first), pairs.owner[first].to(device)
        right = (images[owner[of]] * (captions[of] - false)).sum(1).cpu() > 0
        made_by = np.array(pairs.operators)[first.numpy()]
        names, counts = np.unique(made_by, return_counts=True)
        for name in names.tolist():
            metrics["pairs"][name] = 100 * right[torch.from_numpy(made_by == name)].double().mean().item()
        many = names[counts >= LEAST_PAIRS] if counts.max() >= LEAST_PAIRS else names
        metrics["pairs"]["mean"] = fmean(metrics["pairs"][name] for name in many.tolist())
    else:
        metrics["pairs"]["mean"] = math.nan
    return metrics


def _rate(step: int, steps: int) -> float:
    """The factor of the learning rate at a step, from 0: a linear warm-up, then a cosine to 0."""
    warm_up = max(1, round(WARM_UP * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm_up) / max(1, steps - warm_up))))


def _save(config: ClipConfig, model: Clip) -> None:
    model.towers.save(config.output)
    left_out = ("run", "images", "output", "threads")
    settings = {name: value for name, value in vars(config).items() if name not in left_out}
    (config.output / "training.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n", "utf-8")
