"""A model's folder: what it was told, its vocabulary, and weights as safetensors with JSON beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from augment.vocabulary import Vocabulary
from pipelines.engine.manifest import describe, hash_table
from pipelines.engine.shards import list_shards, write_atomically, write_json
from pipelines.trainer.components import TABLES as COMPONENT_TABLES
from pipelines.trainer.config import NOT_IDENTITY, TrainConfig, identity_fields
from pipelines.trainer.objectives import OBJECTIVES

CONFIG, VOCABULARY, METRICS = "config.json", "vocabulary.json", "metrics.jsonl"
BEST, LAST = "best", "last"
OPTIMIZER = "optimizer"


def identity(config: TrainConfig, features: int, backbone: str) -> dict[str, Any]:
    """What makes a model this one and no other: its config, and the hashes of the tables it is trained on."""
    told = {name: describe(getattr(config, name)) for name in identity_fields()}
    names = ("captions", "negatives", config.table, *(COMPONENT_TABLES if OBJECTIVES[config.model].components else ()))
    tables = {name: hash_table(config.run, name) for name in names if list_shards(config.run / name)}
    return {"config": told, "inputs": tables, "features": features, "backbone": backbone}


def open_folder(folder: Path, made: Mapping[str, Any], vocabulary: Vocabulary, *, overwrite: bool) -> None:
    """Make a folder a model's; one of the same identity goes on from where it is.

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
    for name in (CONFIG, VOCABULARY, METRICS, f"{BEST}.json", f"{LAST}.json"):
        (folder / name).unlink(missing_ok=True)
    for name in (BEST, LAST):
        (folder / f"{name}.safetensors").unlink(missing_ok=True)
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
    folder: Path, name: str, models: Mapping[str, nn.Module], state: Mapping[str, Any], optimizer: Any = None
) -> None:
    """Write `name`.safetensors, the state in its metadata too, then `name`.json; each whole or not at all.

    Tensors are named `<key of models>/<parameter>`, those of the optimizer `optimizer/<number>/<entry>`.
    """
    from safetensors.torch import save as packed

    tensors = {
        f"{which}/{key}": value.contiguous()
        for which, model in models.items()
        for key, value in model.state_dict().items()
    }
    if optimizer is not None:
        for number, values in optimizer.state_dict()["state"].items():
            tensors |= {f"{OPTIMIZER}/{number}/{key}": value.contiguous() for key, value in values.items()}
    write_atomically(folder / f"{name}.safetensors", packed(tensors, {"state": json.dumps(state)}))
    write_json(folder / f"{name}.json", state)


def restore(folder: Path, name: str, models: Mapping[str, nn.Module], optimizer: Any = None) -> dict[str, Any]:
    """Load what `save` wrote: weights (and an optimizer's state) into place; the state they were saved with.

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
    if optimizer is not None:
        saved: dict[int, dict[str, Tensor]] = {}
        for key, value in _part(tensors, OPTIMIZER).items():
            number, _, entry = key.partition("/")
            saved.setdefault(int(number), {})[entry] = value
        optimizer.load_state_dict({"state": saved, "param_groups": optimizer.state_dict()["param_groups"]})
    return state


def _part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(f"{name}/")}


def load_model(folder: Path, device: torch.device, **changes: Any) -> tuple[Any, Vocabulary, TrainConfig]:
    """The selected model of a folder, its vocabulary, and what it was told (without its run), with changes.

    Raises FileNotFoundError for a folder that is no model's, ValueError for one that is damaged.
    """
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"{folder} must be a model's folder, has no {CONFIG}: negcap train makes one")
    told = _json(folder / CONFIG)
    vocabulary = Vocabulary(tuple(_json(folder / VOCABULARY)))
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
