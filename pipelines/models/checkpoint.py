"""A model's folder: what it was told, its vocabulary, and weights as safetensors with JSON beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from negcap.pipelines.engine.manifest import describe, hash_table
from negcap.pipelines.engine.shards import list_shards, write_atomically, write_json
from negcap.pipelines.models.components import TABLES as COMPONENT_TABLES
from negcap.pipelines.models.trainer.config import NOT_IDENTITY, TrainConfig
from negcap.pipelines.models.trainer.objectives import OBJECTIVES
from negcap.pipelines.models.vocabulary import Vocabulary

CONFIG, VOCABULARY, METRICS = "config.json", "vocabulary.json", "metrics.jsonl"
BEST, LAST = "best", "last"


def inputs(config: TrainConfig) -> tuple[str, ...]:
    """The tables that a model of this config is trained on."""
    components = COMPONENT_TABLES if OBJECTIVES[config.model].components else ()
    return ("captions", "negatives", config.table, *components, *filter(None, [config.extra]))


def identity(config: Any, told: Sequence[str], features: int, backbone: str, tables: Sequence[str]) -> dict[str, Any]:
    """What makes a model this one and no other: these fields of its config, and the hashes of the tables it is of."""
    hashes = {name: hash_table(config.run, name) for name in tables if list_shards(config.run / name)}
    described = {name: describe(getattr(config, name)) for name in told}
    return {"config": described, "inputs": hashes, "features": features, "backbone": backbone}


def open_folder(
    folder: Path,
    made: Mapping[str, Any],
    vocabulary: Vocabulary,
    *,
    overwrite: bool,
    weights: Sequence[str] = (BEST, LAST),
) -> None:
    """Make a folder a model's; one of the same identity goes on from where it is. weights: names of its files.

    Raises ValueError for a folder of another model, naming the first difference, or of something else, unless it may be
    overwritten: then what a training wrote there is removed.
    """
    if (folder / CONFIG).exists():
        old = _json(folder / CONFIG)
        reason = _difference(old, json.loads(json.dumps(made)))
        if not reason:
            return
        if not overwrite:
            raise ValueError(f"{folder} is a model trained otherwise: {reason} (--overwrite replaces it)")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"output must be a new or empty folder or a model's, was: {folder}")
    for name in (
        CONFIG,
        VOCABULARY,
        METRICS,
        *(f"{name}.{kind}" for name in weights for kind in ("json", "safetensors")),
    ):
        (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / VOCABULARY, list(vocabulary.words))
    write_json(folder / CONFIG, made)


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    for part in ("config", "inputs"):
        was, now = old.get(part, {}), new[part]
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                said = f"{name} was {was.get(name)}, is now {now.get(name)}"
                return said if part == "config" else f"its input {name} has changed"
    return "" if old == new else "its features differ"


def save(
    folder: Path,
    name: str,
    models: Mapping[str, nn.Module],
    state: Mapping[str, Any],
    optimizers: Mapping[str, torch.optim.Optimizer] = MappingProxyType({}),
) -> None:
    """Write `name`.safetensors, the state in its metadata too, then `name`.json; each whole or not at all.

    Tensors are named `<key of models>/<parameter>`, those of an optimizer `<key>/<number>/<entry>`.
    """
    from safetensors.torch import save as packed

    tensors = {
        f"{which}/{key}": value.contiguous()
        for which, model in models.items()
        for key, value in model.state_dict().items()
    }
    for which, optimizer in optimizers.items():
        for number, values in optimizer.state_dict()["state"].items():
            tensors |= {f"{which}/{number}/{key}": value.contiguous() for key, value in values.items()}
    write_atomically(folder / f"{name}.safetensors", packed(tensors, {"state": json.dumps(state)}))
    write_json(folder / f"{name}.json", state)


def copy(folder: Path, name: str, other: str) -> None:
    """Write what was saved as `name` as `other`, too."""
    for suffix in ("safetensors", "json"):
        write_atomically(folder / f"{other}.{suffix}", (folder / f"{name}.{suffix}").read_bytes())


def restore(
    folder: Path,
    name: str,
    models: Mapping[str, nn.Module],
    optimizers: Mapping[str, torch.optim.Optimizer] = MappingProxyType({}),
) -> dict[str, Any]:
    """Load what `save` wrote: weights (and the optimizers' states) into place; the state they were saved with.

    Raises ValueError for a damaged file or weights of another shape.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / f"{name}.safetensors"
    try:
        with safe_open(path, "pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no mapping
            state = json.loads(file.metadata()["state"])
        for which, model in models.items():
            model.load_state_dict(_part(tensors, which))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: train the model first") from None
    except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged or of another model: {str(error).splitlines()[0]}") from None
    for which, optimizer in optimizers.items():
        saved: dict[int, dict[str, Tensor]] = {}
        for key, value in _part(tensors, which).items():
            number, _, entry = key.partition("/")
            saved.setdefault(int(number), {})[entry] = value
        optimizer.load_state_dict({"state": saved, "param_groups": optimizer.state_dict()["param_groups"]})
    return state


def _part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(f"{name}/")}


def read_told(folder: Path, verb: str = "train") -> tuple[Any, Vocabulary]:
    """What a model was told, and its vocabulary. Raises FileNotFoundError for a folder that is no model's."""
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"{folder} must be a model's folder, has no {CONFIG}: negcap {verb} makes one")
    return _json(folder / CONFIG), Vocabulary(tuple(_json(folder / VOCABULARY)))


def load_model(folder: Path, device: torch.device, **changes: Any) -> tuple[Any, Vocabulary, TrainConfig]:
    """The selected model of a folder, its vocabulary, and what it was told (without its run), with changes.

    Raises FileNotFoundError for a folder that is no model's, ValueError for one that is damaged.
    """
    told, vocabulary = read_told(folder)
    known = {item.name for item in fields(TrainConfig)} - {*NOT_IDENTITY, "vectors"}
    try:
        given: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in told["config"].items() if name in known
        }
        config = TrainConfig(run=Path(), output=folder, **{**given, **changes})
        model = OBJECTIVES[config.model].build(config, int(told["features"]), len(vocabulary), None)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / CONFIG} must be what negcap train wrote, lacks: {error}") from None
    restore(folder, BEST, {"model": model})
    return model.to(device).eval(), vocabulary, config


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, is damaged: {error}") from None
