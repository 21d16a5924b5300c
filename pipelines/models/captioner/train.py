"""The three phases one after the other: a run's folder in, a captioner's folder out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from negcap.pipelines.models import checkpoint
from negcap.pipelines.models.captioner.config import CaptionerConfig, identity_fields
from negcap.pipelines.models.captioner.curves import draw_curves
from negcap.pipelines.models.captioner.material import SHOWN, Material, gather
from negcap.pipelines.models.captioner.measures import distinct
from negcap.pipelines.models.captioner.model import GAN, MLE, PHASES, Nets, build
from negcap.pipelines.models.captioner.phases import Optimizers, discriminator_epoch, gan_epoch, mle_epoch, sample
from negcap.pipelines.models.captioner.text import plain, prose
from negcap.pipelines.models.trainer.train import MODEL_SEEDS, read_history, write_history

DISCRIMINATOR = "discriminator"
EPOCHS = {MLE: mle_epoch, DISCRIMINATOR: discriminator_epoch, GAN: gan_epoch}
INPUTS = ("captions", "features")


def optimizers_of(nets: Nets, config: CaptionerConfig) -> Optimizers:
    """One Adam for each loss, under names that no net has."""
    rates = {
        "likelihood": (nets.generator, config.supervised_rate),
        "policy": (nets.generator, config.learning_rate),
        "discrimination": (nets.discriminator, config.supervised_rate),
    }
    return {name: torch.optim.Adam(net.parameters(), lr=rate) for name, (net, rate) in rates.items()}


def train(config: CaptionerConfig, *, overwrite: bool = False, say: Callable[[str], None] = lambda line: None) -> Path:
    """Train a captioner and return its folder; one that was interrupted goes on after its last whole epoch.

    The folder holds config.json, vocabulary.json, metrics.jsonl (a line an epoch, with captions sampled of validation
    images), curves.png, and weights as safetensors with JSON: of the generator likeliest on validation (mle), of the
    last one that had not collapsed (gan), and all that is needed to go on (last). On one machine, the same config
    gives the same weights. `say` is told a line an epoch. Raises FileNotFoundError and ValueError for a run that
    cannot be trained on, or a folder of another captioner.
    """
    torch.set_num_threads(config.threads)
    material = gather(config)
    size, known = material.features.shape[-1], len(material.vocabulary)
    nets = build(config, size, known)
    made = checkpoint.identity(config, identity_fields(), size, material.backbone, INPUTS)
    folder = config.output
    weights = (*PHASES, checkpoint.LAST)
    checkpoint.open_folder(folder, made, material.vocabulary, overwrite=overwrite, weights=weights)
    for net in nets:
        net.to(material.device)
    nets.generator.dropout.eval()  # likelihood alone has any; the rest stays in training mode, as cuDNN's LSTM wants
    optimizers = optimizers_of(nets, config)
    state: dict[str, Any] = {"epoch": 0, "best": None, "distinct_2": None, "collapsed": False}
    if (folder / f"{checkpoint.LAST}.safetensors").exists():
        state = checkpoint.restore(folder, checkpoint.LAST, nets._asdict(), optimizers)
    history = read_history(folder / checkpoint.METRICS, state["epoch"])
    said = f"; goes on after epoch {state['epoch']}" if state["epoch"] else ""
    images = len(material.image[material.train].unique())
    say(f"captioner: {len(material.train):,} captions of {images:,} images to train on, {known:,} words{said}")
    for number, (phase, epoch) in enumerate(_plan(config), 1):
        if number <= state["epoch"] or state["collapsed"]:
            continue
        if epoch == 1 and phase != MLE and (phase == DISCRIMINATOR or not config.discriminator_epochs):
            checkpoint.restore(folder, MLE, {"generator": nets.generator})
        line = _epoch(nets, optimizers, material, config, phase, epoch, number)
        state = _keep(nets, material, folder, config, phase, line, state)
        checkpoint.save(folder, checkpoint.LAST, nets._asdict(), state, optimizers)
        history.append(line)
        write_history(folder / checkpoint.METRICS, history)
        draw_curves(history, folder / "curves.png")
        say(_in_words(line))
    if state["collapsed"]:
        say(f"stopped: distinct-2 fell under {config.collapse:g} of what it was; {GAN} holds the last good generator")
    return folder


def _plan(config: CaptionerConfig) -> list[tuple[str, int]]:
    """All epochs: the phase, and the epoch's number in it."""
    counts = {MLE: config.mle_epochs, DISCRIMINATOR: config.discriminator_epochs, GAN: config.gan_epochs}
    return [(phase, epoch) for phase, count in counts.items() for epoch in range(1, count + 1)]


def _epoch(
    nets: Nets,
    optimizers: Optimizers,
    material: Material,
    config: CaptionerConfig,
    phase: str,
    epoch: int,
    number: int,
) -> dict[str, Any]:
    """One epoch, and what the generator writes after it."""
    began = time.perf_counter()
    line = EPOCHS[phase](nets, optimizers, material, config, config.seed * MODEL_SEEDS + number)
    if not all(math.isfinite(value) for value in line.values() if isinstance(value, float)):
        raise ValueError(f"the loss is not finite in epoch {number} ({phase}): lower the learning rate")
    noise = Generator(material.device).manual_seed(config.seed)
    written = plain(sample(nets, material.features[material.checked], config.words, noise), material.vocabulary)
    said = {"distinct_2": distinct([text.split() for text in written.to_pylist()], 2)}
    said["samples"] = prose(written[:SHOWN]).to_pylist()
    return {
        "epoch": number,
        "phase": phase,
        "phase_epoch": epoch,
        **line,
        **said,
        "seconds": round(time.perf_counter() - began, 2),
    }


def _keep(
    nets: Nets,
    material: Material,
    folder: Path,
    config: CaptionerConfig,
    phase: str,
    line: dict[str, Any],
    state: dict[str, Any],
) -> dict[str, Any]:
    """Save the generator if it is one to keep; the state after the epoch."""
    state = {**state, "epoch": line["epoch"]}
    told = {"epoch": line["epoch"], "distinct_2": line["distinct_2"], "vocabulary": material.vocabulary.sha256}
    if phase == MLE and (state["best"] is None or line["validation_loss"] < state["best"]):
        state |= {"best": line["validation_loss"], "distinct_2": line["distinct_2"]}
        checkpoint.save(folder, MLE, {"generator": nets.generator}, told)
    elif phase == GAN and line["distinct_2"] < config.collapse * state["distinct_2"]:
        state["collapsed"] = line["collapsed"] = True
        if not (folder / f"{GAN}.safetensors").exists():  # the last good generator is that of the first phase
            checkpoint.copy(folder, MLE, GAN)
    elif phase == GAN:
        checkpoint.save(folder, GAN, {"generator": nets.generator}, told)
    return state


def _in_words(line: dict[str, Any]) -> str:
    """An epoch's line for a person."""
    told = line.get("told", {})
    shown = {
        "loss": line.get("loss"),
        "validation": line.get("validation_loss"),
        "reward": line.get("reward"),
        "entropy": line.get("entropy"),
        **{f"told {name}": share for name, share in told.items()},
        "distinct-2": line["distinct_2"],
    }
    figures = ", ".join(f"{name} {value:.3f}" for name, value in shown.items() if value is not None)
    return f"{line['phase']} {line['phase_epoch']}: {figures}, {line['seconds']:.0f} s | {line['samples'][0]}"
