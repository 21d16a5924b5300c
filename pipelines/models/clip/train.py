"""Train a CLIP on pictures and captions with negatives, and write it as a folder of Hugging Face."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ..checkpoint import epoch_seed, write_history
from ..device import choose_device, deterministic
from ..evaluation.retrieval import rank, retrieval_metrics
from ..losses import NONE, TERMS, Drawn, compare, info_nce
from .config import TRIPLET, ClipConfig
from .data import (
    Counterparts,
    Pairs,
    batches,
    draw_counterparts,
    frequent_words,
    pool_of,
    read_counterparts,
    read_pairs,
    read_pixels,
    tokenize,
)
from .network import Clip, Towers, towers

WARM_UP = 0.05
MAX_NORM = 1.0
LEAST_PAIRS = 20


class Encoded:
    """Pairs as tensors on the CPU: pixels (I, 3, h, w) float16, and token ids of captions (C, T) and negatives."""

    def __init__(self, pairs: Pairs, towers: Towers) -> None:
        self.pairs = pairs
        self.pixels = read_pixels(pairs.files, towers)
        self.captions, self.negatives = tokenize(towers, pairs.texts), tokenize(towers, pairs.negatives)
        self.other_owner: Tensor | None = None
        self.other_pixels, self.other_texts = self.pixels[:0], self.captions[:0]

    def add(self, others: Counterparts, towers: Towers) -> None:
        """Add pictures in which negatives are true: their captions (N,), pixels (N, 3, h, w) and token ids (N, T)."""
        self.other_owner = others.owner
        self.other_pixels = read_pixels(others.files, towers)
        self.other_texts = tokenize(towers, others.texts)


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
    if others is not None:
        data.add(others, clip)
    validation = Encoded(read_pairs(config, [config.validation_split]), clip)
    model = Clip(clip, config).to(device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(_groups(trained, config.weight_decay), config.learning_rate)
    steps = config.epochs * sum(len(batch) > 1 for batch in torch.arange(len(pairs.files)).split(config.batch_size))
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    say(f"{config.objective}: {len(pairs.texts):,} captions of {len(pairs.files):,} images")
    best, history = -math.inf, []
    for epoch in range(1, config.epochs + 1):
        began, losses = time.perf_counter(), []
        generator = Generator().manual_seed(epoch_seed(config.seed, epoch))
        model.train()
        with deterministic(device):
            for captions in batches(pairs, config, generator):
                drawn = NONE if pool is None else pool.draw(captions, config.negatives, generator)
                terms = _losses(model, data, captions, drawn, config, device)
                if data.other_owner is not None:
                    of, places = draw_counterparts(data.other_owner, captions, generator)
                    if len(of):
                        terms["counterparts"] = _of_counterparts(model, data, captions, of, places, config, device)
                loss = torch.stack(list(terms.values())).sum() / len(captions)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(trained, MAX_NORM)
                optimizer.step()
                rates.step()
                losses.append(loss.detach())
            metrics = evaluate(model, validation, config, device)
        value = torch.stack(losses).mean().item()
        if not math.isfinite(value):
            raise ValueError(f"the loss is not finite in epoch {epoch}: lower the learning rate")
        history.append({"epoch": epoch, "loss": value, "validation": metrics})
        if metrics["rsum"] > best:
            best = metrics["rsum"]
            _save(config, model)
        write_history(config.output / "metrics.jsonl", history)
        say(
            f"epoch {epoch}: loss {value:.3f}, rsum {metrics['rsum']:.1f} (best {best:.1f}), pairs right "
            f"{metrics['pairs']['mean']:.1f} %, {time.perf_counter() - began:.0f} s"
        )
    return config.output


def _losses(
    model: Clip, data: Encoded, captions: Tensor, drawn: Drawn, config: ClipConfig, device: torch.device
) -> dict[str, Tensor]:
    rows = drawn.negatives.rows
    image = data.pairs.image[captions]
    with torch.autocast("cuda", torch.bfloat16, enabled=config.amp and device.type == "cuda"):
        images = model.images(data.pixels[image].to(device).float())
        texts = model.texts(data.captions[captions].long().to(device))
        false = model.texts(data.negatives[rows].long().to(device)) if len(rows) else texts[:0]
    same = (image[:, None] == image[None, :]).to(device)
    logits = compare(images, texts, false, drawn, model.scale, same, config.concreteness_margin)
    return TERMS["negclip" if config.objective == TRIPLET else config.objective](model, logits)


def _of_counterparts(
    model: Clip,
    data: Encoded,
    captions: Tensor,
    drawn: Tensor,
    places: Tensor,
    config: ClipConfig,
    device: torch.device,
) -> Tensor:
    """TripletCLIP's second term (Patel et al. 2024): NegCLIP's loss of the pictures of negatives, a scalar.

    There the negatives are the captions, and the captions are their negatives. drawn: (n,) the counterparts of some
    captions of the batch. places: (n,) where in the batch these captions are.
    """
    with torch.autocast("cuda", torch.bfloat16, enabled=config.amp and device.type == "cuda"):
        images = model.images(data.other_pixels[drawn].to(device).float())
        texts = model.texts(data.other_texts[drawn].long().to(device))
        false = model.texts(data.captions[captions[places]].long().to(device))
    same = torch.eye(len(drawn), dtype=torch.bool, device=device)
    return info_nce(model.scale * images @ texts.T, same, model.scale * images @ false.T)


@torch.inference_mode()
def evaluate(model: Clip, data: Encoded, config: ClipConfig, device: torch.device) -> dict[str, Any]:
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

    pairs, captions = data.pairs, embed(data.captions, torch.arange(len(data.captions)))
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


def _groups(trained: list[torch.nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Parameters for AdamW: as in CLIP, only matrices decay, not biases, norms and the temperature."""
    return [
        {"params": [one for one in trained if (one.ndim > 1) == matrices], "weight_decay": weight_decay * matrices}
        for matrices in (True, False)
    ]


def _rate(step: int, steps: int) -> float:
    """The factor of the learning rate at a step, from 0: a linear warm-up, then a cosine to 0."""
    warm_up = max(1, round(WARM_UP * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm_up) / max(1, steps - warm_up))))


def _save(config: ClipConfig, model: Clip) -> None:
    model.towers.save(config.output)
    settings = {
        name: value if isinstance(value, (int, float, str, tuple)) else str(value or "")
        for name, value in vars(config).items()
        if name not in ("run", "images", "output", "threads")
    }
    (config.output / "training.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n", "utf-8")
