"""The training of a captioner in three phases: reads the folder of a run, writes that of a captioner."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from .. import checkpoint
from ..device import deterministic
from ..training import epoch_seed, read_history, write_history
from .config import RESUMABLE, CaptionerConfig
from .curves import draw_curves
from .measures import distinct
from .model import GAN, MLE, PHASES, Nets, build_nets
from .phases import Learner, discriminator_epoch, gan_epoch, mle_epoch, sample
from .text import detokenize, join_words
from .training_data import read_training_data

DISCRIMINATOR = "discriminator"
EPOCHS = {MLE: mle_epoch, DISCRIMINATOR: discriminator_epoch, GAN: gan_epoch}
INPUTS = ("captions", "features")
STATE = {"epoch": int, "collapsed": bool}
LOGGED_CAPTIONS = 4  # sampled captions per line of metrics.jsonl


def train(config: CaptionerConfig, *, overwrite: bool = False, say: Callable[[str], None] = lambda line: None) -> Path:
    """Train a captioner and return its folder; an interrupted training resumes after the last epoch it completed.

    The folder holds config.json, vocabulary.json, metrics.jsonl (one line per epoch, with captions sampled for
    validation images), curves.png, and weights as safetensors and JSON: the generator with the least validation loss
    (`mle`), the last one before diversity collapsed (`gan`), and all that resuming needs (`last`). On one machine the
    same config gives the same weights; see `deterministic` for a GPU. overwrite: replace a captioner trained with other
    settings. say: called with one line of progress per epoch. Raises FileNotFoundError and ValueError for a run that
    lacks what the training needs, ValueError for a folder that holds anything else.
    """
    torch.set_num_threads(config.threads)
    data = read_training_data(config)
    size, words, folder = data.features.shape[-1], len(data.vocabulary), config.output
    nets = build_nets(config, size, words)
    identity = checkpoint.training_identity(config, RESUMABLE, size, data.backbone, INPUTS)
    weights = (*PHASES, checkpoint.LAST)
    checkpoint.prepare_folder(folder, identity, data.vocabulary, overwrite=overwrite, weights=weights)
    for net in nets:
        net.to(data.device)
    nets.generator.dropout.eval()  # only used for likelihood; LSTMs stay in training mode, as cuDNN needs
    learner = Learner(nets, build_optimizers(nets, config), data, config)
    state: dict[str, Any] = {"epoch": 0, "best": None, "distinct_2": None, "collapsed": False}
    if (folder / f"{checkpoint.LAST}.safetensors").exists():
        state = checkpoint.restore(folder, checkpoint.LAST, nets._asdict(), learner.optimizers, STATE)
    history = read_history(folder / checkpoint.METRICS, state["epoch"])
    resumed = f"; resumed after epoch {state['epoch']}" if state["epoch"] else ""
    images = len(data.image[data.train].unique())
    say(f"captioner: {len(data.train):,} captions of {images:,} images to train on, {words:,} words{resumed}")
    for number, (phase, epoch) in enumerate(_all_epochs(config), 1):
        if number <= state["epoch"] or state["collapsed"]:
            continue
        if epoch == 1 and phase != MLE and (phase == DISCRIMINATOR or not config.discriminator_epochs):
            checkpoint.restore(folder, MLE, {"generator": nets.generator})
        with deterministic(data.device):
            line = {"epoch": number, "phase": phase, "phase_epoch": epoch, **_run_epoch(learner, phase, number)}
        state = _save_generator(learner, line, state)
        checkpoint.save(folder, checkpoint.LAST, nets._asdict(), state, learner.optimizers)
        history.append(line)
        write_history(folder / checkpoint.METRICS, history)
        draw_curves(history, folder / "curves.png")
        say(_progress(line))
    if state["collapsed"]:
        say(f"stopped: distinct-2 fell below {config.collapse:g} of its start; {GAN} holds the last good generator")
    return folder


def build_optimizers(nets: Nets, config: CaptionerConfig) -> dict[str, torch.optim.Optimizer]:
    """One Adam per loss; their names differ from those of the nets, as the same file holds both."""
    rates = {
        "likelihood": (nets.generator, config.supervised_rate),
        "policy": (nets.generator, config.learning_rate),
        "discrimination": (nets.discriminator, config.supervised_rate),
    }
    return {name: torch.optim.Adam(net.parameters(), lr=rate) for name, (net, rate) in rates.items()}


def _all_epochs(config: CaptionerConfig) -> list[tuple[str, int]]:
    """The epochs of all phases in order: the phase, and the epoch's number within it, from 1."""
    counts = {MLE: config.mle_epochs, DISCRIMINATOR: config.discriminator_epochs, GAN: config.gan_epochs}
    return [(phase, epoch) for phase, count in counts.items() for epoch in range(1, count + 1)]


def _run_epoch(learner: Learner, phase: str, number: int) -> dict[str, Any]:
    """Run one epoch; returns its data for metrics.jsonl, with captions sampled after it.

    number: of the epoch, counted from 1 through all phases.
    """
    began = time.perf_counter()
    data, config = learner.data, learner.config
    figures = EPOCHS[phase](learner, epoch_seed(config.seed, number))
    if not all(math.isfinite(value) for value in figures.values() if isinstance(value, float)):
        raise ValueError(f"the loss is not finite in epoch {number} ({phase}): lower the learning rate")
    noise = Generator(data.device).manual_seed(config.seed)
    sentences = sample(learner.nets, data.features[data.distinct_images], config.words, noise)
    texts = join_words(sentences, data.vocabulary)
    return {
        **figures,
        "distinct_2": distinct([text.split() for text in texts.to_pylist()], 2),
        "samples": detokenize(texts[:LOGGED_CAPTIONS]).to_pylist(),
        "seconds": round(time.perf_counter() - began, 2),
    }


def _save_generator(learner: Learner, line: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Save the generator if it is the best of the first phase, or from the third and not collapsed; the new state."""
    folder, phase, generator = learner.config.output, line["phase"], learner.nets.generator
    state = {**state, "epoch": line["epoch"]}
    vocabulary = learner.data.vocabulary.sha256
    saved_with = {"epoch": line["epoch"], "distinct_2": line["distinct_2"], "vocabulary": vocabulary}
    if phase == MLE and (state["best"] is None or line["validation_loss"] < state["best"]):
        state |= {"best": line["validation_loss"], "distinct_2": line["distinct_2"]}
        checkpoint.save(folder, MLE, {"generator": generator}, saved_with)
    elif phase == GAN and line["distinct_2"] < learner.config.collapse * state["distinct_2"]:
        state["collapsed"] = line["collapsed"] = True
        if not (folder / f"{GAN}.safetensors").exists():  # the last good generator is that of the first phase
            checkpoint.copy(folder, MLE, GAN)
    elif phase == GAN:
        checkpoint.save(folder, GAN, {"generator": generator}, saved_with)
    return state


def _progress(line: dict[str, Any]) -> str:
    """A line of progress for an epoch; line: its data in metrics.jsonl."""
    figures = {
        "loss": line.get("loss"),
        "validation": line.get("validation_loss"),
        "reward": line.get("reward"),
        "entropy": line.get("entropy"),
        **{f"accuracy on {name}": share for name, share in line.get("accuracy", {}).items()},
        "distinct-2": line["distinct_2"],
    }
    shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if value is not None)
    return f"{line['phase']} {line['phase_epoch']}: {shown}, {line['seconds']:.0f} s | {line['samples'][0]}"
