"""The folder of a trained model: config.json, vocabulary.json, and weights as safetensors with JSON beside them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from negcap.pipelines.engine.manifest import describe, hash_table
from negcap.pipelines.engine.shards import list_shards, write_atomically, write_json
from negcap.pipelines.models.vocabulary import WordVocabulary

CONFIG, VOCABULARY, METRICS = "config.json", "vocabulary.json", "metrics.jsonl"
BEST, LAST = "best", "last"
Config = TypeVar("Config")


def training_identity(
    config: Any, resumable: Collection[str], features: int, backbone: str, tables: Sequence[str]
) -> dict[str, Any]:
    """What makes a training this one and no other; it is written to config.json.

    config: a dataclass with the field `run`; resumable: its fields that may change when a training is resumed;
    features, backbone: size of an image's features and the network they are from; tables: of the run, by their hashes.
    """
    hashes = {name: hash_table(config.run, name) for name in tables if list_shards(config.run / name)}
    names = [item.name for item in fields(config) if item.name not in resumable]
    described = {name: describe(getattr(config, name)) for name in names}
    return {"config": described, "inputs": hashes, "features": features, "backbone": backbone}


def prepare_folder(
    folder: Path,
    identity: Mapping[str, Any],
    vocabulary: WordVocabulary,
    *,
    overwrite: bool,
    weights: Sequence[str] = (BEST, LAST),
) -> None:
    """Make a folder ready for a training of this identity; one that holds such a training already is resumed.

    weights: the names under which this training saves. Raises ValueError for a folder of another training, naming the
    first difference, or of something else. With `overwrite`, the files of another training are removed instead.
    """
    if (folder / CONFIG).exists():
        reason = _first_difference(_read_json(folder / CONFIG), json.loads(json.dumps(identity)))
        if not reason:
            return
        if not overwrite:
            raise ValueError(f"{folder} is a model trained otherwise: {reason} (--overwrite replaces it)")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"output must be a new or empty folder or a model's, was: {folder}")
    saved = [f"{name}.{suffix}" for name in weights for suffix in ("json", "safetensors")]
    for name in (CONFIG, VOCABULARY, METRICS, *saved):
        (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / VOCABULARY, list(vocabulary.words))
    write_json(folder / CONFIG, identity)


def _first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    for part in ("config", "inputs"):
        was, now = old.get(part, {}), new[part]
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                changed = f"{name} was {was.get(name)}, is now {now.get(name)}"
                return changed if part == "config" else f"its input {name} has changed"
    return "" if old == new else "its features differ"


def save(
    folder: Path,
    name: str,
    models: Mapping[str, nn.Module],
    state: Mapping[str, Any],
    optimizers: Mapping[str, torch.optim.Optimizer] = MappingProxyType({}),
) -> None:
    """Write `name`.safetensors, with the state as JSON in its metadata, then `name`.json with the state; atomically.

    Tensors are named `<key of models>/<parameter>`, those of an optimizer `<key>/<parameter's number>/<entry>`.
    """
    from safetensors.torch import save as to_bytes

    tensors = {
        f"{which}/{key}": value.contiguous()
        for which, model in models.items()
        for key, value in model.state_dict().items()
    }
    for which, optimizer in optimizers.items():
        for number, values in optimizer.state_dict()["state"].items():
            tensors |= {f"{which}/{number}/{key}": value.contiguous() for key, value in values.items()}
    write_atomically(folder / f"{name}.safetensors", to_bytes(tensors, {"state": json.dumps(state)}))
    write_json(folder / f"{name}.json", state)


def copy(folder: Path, name: str, other: str) -> None:
    """Write what was saved as `name` under the name `other` too."""
    for suffix in ("safetensors", "json"):
        write_atomically(folder / f"{other}.{suffix}", (folder / f"{name}.{suffix}").read_bytes())


def restore(
    folder: Path,
    name: str,
    models: Mapping[str, nn.Module],
    optimizers: Mapping[str, torch.optim.Optimizer] = MappingProxyType({}),
) -> dict[str, Any]:
    """Load what `save` wrote into these models and optimizers, in place; returns the state that was saved with them.

    Raises FileNotFoundError, or ValueError for a damaged file or weights of another shape.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / f"{name}.safetensors"
    try:
        with safe_open(path, "pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no mapping
            state = json.loads(file.metadata()["state"])
        for which, model in models.items():
            model.load_state_dict(_under(tensors, which))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: train the model first") from None
    except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged or of another model: {str(error).splitlines()[0]}") from None
    for which, optimizer in optimizers.items():
        saved: dict[int, dict[str, Tensor]] = {}
        for key, value in _under(tensors, which).items():
            number, _, entry = key.partition("/")
            saved.setdefault(int(number), {})[entry] = value
        optimizer.load_state_dict({"state": saved, "param_groups": optimizer.state_dict()["param_groups"]})
    return state


def _under(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors named `name`/…, without that prefix."""
    return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(f"{name}/")}


def read_identity(folder: Path, verb: str) -> tuple[Any, WordVocabulary]:
    """The identity and the vocabulary of a trained model; verb: the command that makes such a folder.

    Raises FileNotFoundError for a folder that is no model's, ValueError for damaged JSON.
    """
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"{folder} must be a model's folder, has no {CONFIG}: negcap {verb} makes one")
    return _read_json(folder / CONFIG), WordVocabulary(tuple(_read_json(folder / VOCABULARY)))


def restore_config(
    kind: type[Config], folder: Path, identity: Any, left_out: Collection[str], **changes: Any
) -> Config:
    """The config (of the dataclass `kind`) that `training_identity` described, with an empty `run`.

    left_out: fields not to be taken from the identity; changes: fields to be set otherwise. Raises KeyError or
    TypeError for an identity that is not of such a config.
    """
    names = {item.name for item in fields(kind)} - set(left_out)  # type: ignore[arg-type]
    given = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in identity["config"].items()
        if name in names
    }
    return kind(**{"run": Path(), "output": folder, **given, **changes})


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, is damaged: {error}") from None
