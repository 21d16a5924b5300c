"""The training loop: a run's folder in, a model's folder out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import clip_grad_norm_

from negcap.pipelines.engine.shards import write_atomically
from negcap.pipelines.models import checkpoint
from negcap.pipelines.models.curves import draw_curves
from negcap.pipelines.models.embed import embed_images, embed_sentences
from negcap.pipelines.models.retrieval import rank, retrieval
from negcap.pipelines.models.sampling import shuffled, to
from negcap.pipelines.models.trainer.config import TrainConfig, identity_fields
from negcap.pipelines.models.trainer.material import Material, gather
from negcap.pipelines.models.trainer.objective import Batch, Model
from negcap.pipelines.models.trainer.objectives import OBJECTIVES
from negcap.pipelines.models.vectors import read_vectors

LOSSES_AN_EPOCH = 20  # points of the loss curve
MODEL_SEEDS = 1 << 20  # apart: an epoch's draws hang on the seed and the epoch alone


def make_batch(material: Material, captions: Tensor, config: TrainConfig, noise: Generator) -> Batch:
    """Captions (B,) with the features of their images.

    A share `config.dropout` of the features is 0, others each time; noise: on the device.
    """
    device, image = material.device, material.image[captions]
    features = material.features[to(image, device)]
    if config.dropout:
        features = features * (torch.rand(features.shape, generator=noise, device=device) >= config.dropout)
    return Batch(captions, features, to(image[:, None] == image[None, :], device), material.texts)


def validate(model: Model, material: Material) -> dict[str, float]:
    """Retrieval metrics on the validation captions and their images."""
    image, owner = material.image[material.validation].unique(return_inverse=True)
    device = material.device
    images = embed_images(model.image, material.features, image, device)
    captions = embed_sentences(model.sentences, material.texts, material.validation)
    return retrieval(rank(images, captions, owner.to(device)))


def train_epoch(
    model: nn.Module,
    mean: nn.Module,
    optimizer: torch.optim.Optimizer,
    material: Material,
    config: TrainConfig,
    epoch: int,
) -> dict[str, Any]:
    """One pass over the train captions; its loss a pair, and where its time went. `mean` follows the weights."""
    seed = config.seed * MODEL_SEEDS + epoch
    generator, noise = Generator().manual_seed(seed), Generator(material.device).manual_seed(seed)
    objective = OBJECTIVES[config.model]
    losses: list[dict[str, Tensor]] = []
    sizes: list[int] = []
    weights: list[Tensor] = list(model.parameters())
    means: list[Tensor] = list(mean.parameters())
    steps = (epoch - 1) * -(-len(material.train) // config.batch_size)
    began, drawing = time.perf_counter(), 0.0
    for group in optimizer.param_groups:
        group["lr"] = config.rate(epoch)
    for captions in shuffled(material.train, config.batch_size, generator):
        start = time.perf_counter()
        drawn = objective.draw(material.source, captions, config, generator)
        drawing += time.perf_counter() - start
        batch = make_batch(material, captions, config, noise)
        terms = objective.losses(model, batch, drawn, config, epoch)
        loss = torch.stack(list(terms.values())).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        share = max(1 - config.average, 1 / (steps + len(sizes) + 1))  # of all alike, while there are few
        with torch.no_grad():
            torch._foreach_lerp_(means, weights, share)
        losses.append({name: term.detach() for name, term in terms.items()})
        sizes.append(len(captions))
    names = list(losses[0])
    every = torch.stack([torch.stack(list(terms.values())) for terms in losses]).double().cpu()  # waits for the device
    each = every.sum(1)
    seconds = time.perf_counter() - began
    if not each.isfinite().all():
        raise ValueError(f"the loss is not finite in epoch {epoch}: lower the learning rate")
    per_pair = each / torch.tensor(sizes)
    return {
        "loss": each.sum().item() / sum(sizes),
        "terms": dict(zip(names, (every.sum(0) / sum(sizes)).tolist(), strict=True)),
        "losses": [part.mean().item() for part in per_pair.chunk(LOSSES_AN_EPOCH)],
        "learning_rate": optimizer.param_groups[0]["lr"],
        "steps": len(sizes),
        "seconds": round(seconds, 2),
        "drawing_share": round(drawing / seconds, 4),
        "pairs_per_second": round(sum(sizes) / seconds, 1),
    }


def train(config: TrainConfig, *, overwrite: bool = False, say: Callable[[str], None] = lambda line: None) -> Path:
    """Train a model and return its folder; one that was interrupted goes on after its last whole epoch.

    The folder holds config.json, vocabulary.json, metrics.jsonl (a line an epoch), curves.png, and the weights of the
    epoch with the highest rsum on validation (best) and of the last one (last, with the optimizer), as safetensors with
    JSON. On one machine, the same config gives the same weights, however often it was interrupted. `say` is told a line
    an epoch. Raises FileNotFoundError and ValueError for a run that cannot be trained on, or a folder of another model.
    """
    torch.set_num_threads(config.threads)
    material = gather(config)
    size = material.features.shape[-1]
    vectors = read_vectors(config.vectors, material.vocabulary, config.word_dim) if config.vectors else None
    objective = OBJECTIVES[config.model]
    model = objective.build(config, size, len(material.vocabulary), vectors)
    made = checkpoint.identity(config, identity_fields(), size, material.backbone, checkpoint.inputs(config))
    checkpoint.open_folder(config.output, made, material.vocabulary, overwrite=overwrite)
    model.to(material.device)
    mean = deepcopy(model).requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=config.learning_rate, fused=material.device.type == "cuda")
    models = {"model": model, "mean": mean}
    done, best = 0, {"epoch": 0, "rsum": float("-inf")}
    if (config.output / f"{checkpoint.LAST}.safetensors").exists():
        state = checkpoint.restore(config.output, checkpoint.LAST, models, {"optimizer": optimizer})
        done, best = state["epoch"], state["best"]
    history = read_history(config.output / checkpoint.METRICS, done)
    say(
        f"{config.model}: {len(material.train):,} captions to train on, {len(material.validation):,} to validate, "
        f"{len(material.vocabulary):,} words"
        + (f", {said}" if (said := objective.says(material.source)) else "")
        + (f"; {material.left_out:,} images have no features" if material.left_out else "")
        + (f"; goes on after epoch {done}" if done else "")
    )
    for epoch in range(done + 1, config.epochs + 1):
        line = {"epoch": epoch, **train_epoch(model, mean, optimizer, material, config, epoch)}
        line["validation"] = validate(mean, material)
        rsum = line["validation"]["rsum"]
        if rsum > best["rsum"]:
            best = {"epoch": epoch, "rsum": rsum}
            checkpoint.save(config.output, checkpoint.BEST, {"model": mean}, best)
        state = {"epoch": epoch, "best": best}
        checkpoint.save(config.output, checkpoint.LAST, models, state, {"optimizer": optimizer})
        history.append(line)
        write_history(config.output / checkpoint.METRICS, history)
        draw_curves(history, config.output / "curves.png", config.model)
        say(
            f"epoch {epoch}: loss {line['loss']:.3f}, rsum {rsum:.1f} on validation "
            f"(best {best['rsum']:.1f}, epoch {best['epoch']}), {line['seconds']:.0f} s"
        )
    return config.output


def read_history(path: Path, epochs: int) -> list[dict[str, Any]]:
    """The lines of the epochs that the weights stand for."""
    lines = path.read_text("utf-8").splitlines() if path.exists() and epochs else []
    return [line for line in map(json.loads, lines) if line["epoch"] <= epochs]


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """Write metrics.jsonl, whole."""
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in history).encode())
