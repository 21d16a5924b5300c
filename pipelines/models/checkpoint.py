"""The folder of a trained model: config.json, vocabulary.json, and weights as safetensors and JSON files."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..engine.manifest import describe
from ..engine.storage import TEMPORARY, scratch_folder, write_atomically, write_json
from ..engine.tables import has_table, hash_table
from ..readers.files import first_line
from .vocabulary import Vocabularies, WordVocabulary

CONFIG, VOCABULARY, METRICS = "config.json", "vocabulary.json", "metrics.jsonl"
BEST, LAST = "best", "last"
LAYOUT = "layout.json"  # of mapped arrays
Tensors = dict[str, Tensor]
Models = Mapping[str, nn.Module]
Optimizers = Mapping[str, torch.optim.Optimizer]
NONE: Mapping[str, Any] = MappingProxyType({})


def prepare_folder(
    config: Any, free: Collection[str], size: int, net: str, tables: Sequence[str], words: Vocabularies, overwrite: bool
) -> None:
    """Prepare the folder config.output for a training; one that holds this very training is left as it is.

    config.json gets what distinguishes trainings: config, a Settings with `run` and `output`, less the fields that are
    free to change; hashes of those tables of the run that the training reads; the size D of an image's features, and
    the net that made them. words: the vocabularies. Raises ValueError, naming the first difference, if the
    folder holds another training, whose files `overwrite` deletes, or anything else.
    """
    folder = config.output
    hashes = {name: hash_table(config.run, name) for name in tables if has_table(config.run, name)}
    described = {name: describe(value) for name, value in vars(config).items() if name not in free}
    identity = {"config": described, "inputs": hashes, "features": size, "backbone": net}
    if (folder / CONFIG).exists():
        reason = _first_difference(_read_json(folder / CONFIG), json.loads(json.dumps(identity)))
        if not reason:
            return
        if not overwrite:
            raise ValueError(f"{folder} holds a model trained with other settings: {reason} (--overwrite replaces it)")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"output must be a new folder, an empty one, or that of a model, was: {folder}")
    weights = [*folder.glob("*.safetensors")]
    states = [path.with_suffix(".json") for path in weights]
    for path in (folder / CONFIG, folder / METRICS, *folder.glob("vocabulary*.json"), *weights, *states):
        path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for file, known in zip(_vocabulary_files(folder, [*words]), words.values(), strict=True):
        write_json(file, list(known.words))
    write_json(folder / CONFIG, identity)


def _first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    for part in ("config", "inputs"):
        was, now = old[part], new[part]
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                changed = f"{name} was {was.get(name)}, is now {now.get(name)}"
                return changed if part == "config" else f"its input table {name} has changed"
    compared = {"config": None, "inputs": None}  # above, where a setting that is None equals one that is missing
    return "" if {**old, **compared} == {**new, **compared} else "its features differ"


def save(folder: Path, name: str, models: Models, state: Mapping[str, Any], optimizers: Optimizers = NONE) -> None:
    """Write `name`.safetensors, with the state as JSON in its metadata, then the state as `name`.json; both atomically.
    Tensors are `<key of models>/<parameter>`, and `<key of optimizers>/<index of the parameter>/<entry>`.
    """
    from safetensors.torch import save as to_bytes

    stored = {f"{which}/{key}": value for which, model in models.items() for key, value in model.state_dict().items()}
    for which, optimizer in optimizers.items():
        for number, values in optimizer.state_dict()["state"].items():
            stored |= {f"{which}/{number}/{key}": value for key, value in values.items()}
    content = to_bytes({key: value.contiguous() for key, value in stored.items()}, {"state": json.dumps(state)})
    write_atomically(folder / f"{name}.safetensors", content)
    write_json(folder / f"{name}.json", state)


def restore(
    folder: Path, name: str, models: Models, optimizers: Optimizers = NONE, entries: Mapping[str, type] = NONE
) -> dict[str, Any]:
    """Load what `save` wrote into these models and optimizers, in place; returns the saved state. entries: names that
    the state must have, with the types of their values. Raises FileNotFoundError for a missing file, ValueError for a
    damaged one, weights of other names or shapes, or another state.
    """
    from safetensors import SafetensorError

    path = folder / f"{name}.safetensors"
    try:
        stored, metadata = read_tensors(path)
        state = json.loads(metadata["state"])
        for entry, kind in entries.items():
            if type(state[entry]) is not kind:
                raise ValueError(f"{entry} must be of the type {kind.__name__}, was: {state[entry]!r:.60}")
        tensors: dict[str, Tensors] = {which: {} for which in (*models, *optimizers)}
        for key, value in stored.items():
            which, _, rest = key.partition("/")
            tensors.get(which, {})[rest] = value
        for which, model in models.items():
            model.load_state_dict(tensors[which])
        for which, optimizer in optimizers.items():
            saved: dict[int, Tensors] = {}
            for key, value in tensors[which].items():
                number, _, entry = key.partition("/")
                saved.setdefault(int(number), {})[entry] = value
            optimizer.load_state_dict({"state": saved, "param_groups": optimizer.state_dict()["param_groups"]})
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: train the model first") from None
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:  # RecursionError, too
        raise ValueError(f"{path} is damaged or of another model: {first_line(error)}") from None
    return state


def read_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """The tensors and the metadata of a safetensors file."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118 - no mapping


def read_identity(folder: Path, verb: str) -> Any:
    """What distinguishes the training of a model, see `prepare_folder`; verb: the command that makes such folders.
    Raises FileNotFoundError if the folder has no config.json, ValueError for damaged JSON.
    """
    if not (folder / CONFIG).is_file():
        lacking = f"has no {CONFIG}: negcap {verb} creates one"
        raise FileNotFoundError(f"{folder} must be the folder of a trained model, {lacking}")
    return _read_json(folder / CONFIG)


def read_vocabularies(folder: Path, languages: Sequence[str]) -> dict[str, WordVocabulary]:
    """The vocabularies of a model by language: vocabulary.json of the first one, and files such as vocabulary.de.json.
    Raises FileNotFoundError for a missing file, ValueError for a damaged one.
    """
    found = {}
    for language, path in zip(languages, _vocabulary_files(folder, languages), strict=True):
        words = _read_json(path, list)
        if not all(type(word) is str for word in words):
            raise ValueError(f"{path} must be a list of words, is damaged")
        found[language] = WordVocabulary(tuple(words))
    return found


def _vocabulary_files(folder: Path, languages: Sequence[str]) -> list[Path]:
    return [folder / VOCABULARY, *(folder / f"vocabulary.{language}.json" for language in languages[1:])]


def _read_json(path: Path, kind: type = dict) -> Any:
    """The value in a JSON file. Raises ValueError if it is damaged, of another type or, in config.json, incomplete."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON, is damaged: {first_line(error)}") from None
    parts = [value, *(value.get(name) for name in ("config", "inputs"))] if type(value) is dict else [value]
    if any(type(part) is not kind for part in parts):
        raise ValueError(f"{path} must be what negcap wrote, is damaged: {value!r:.60}")
    return value


SEED_STRIDE = 1 << 20  # more than any number of epochs, so that no two seeds share an epoch's random numbers


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of an epoch (counted from 1): a resumed training uses the random numbers of an uninterrupted one."""
    return seed * SEED_STRIDE + epoch


def read_history(path: Path, epochs: float = inf) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl for the first `epochs` epochs: weights may be older. Raises ValueError if damaged."""
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() and epochs else []
        return [line for line in map(json.loads, lines) if line["epoch"] <= epochs]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} must have one JSON object with an epoch per line, is damaged: {error}") from None


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """Write metrics.jsonl, one line per epoch, atomically."""
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in history).encode())


class ArrayWriter:
    """Appends to arrays, each of which is a file of a folder, so that they may be larger than the memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.layout: dict[str, tuple[str, int]] = {}  # by name, the type of an array and its length

    def append(self, **arrays: np.ndarray) -> None:
        """Append arrays (n,) to those of these names, which have their type."""
        for name, values in arrays.items():
            kind, length = self.layout.get(name, (values.dtype.str, 0))
            if kind != values.dtype.str:
                raise TypeError(f"{name} must be {kind}, was: {values.dtype.str}")
            with (self._folder / name).open("ab") as file:
                file.write(np.ascontiguousarray(values).data)
            self.layout[name] = kind, length + len(values)


def mapped_arrays(run: Path, prefix: str, identity: Any, write: Callable[[ArrayWriter], Any]) -> tuple[Tensors, Any]:
    """Arrays in a folder of the run's cache, mapped into memory: what is not read stays on the disk. Not to be changed.

    Args:
        run: the folder of a run.
        prefix: of the folder's name, which a hash of `identity` completes.
        identity: JSON-compatible data from which the content follows.
        write: writes the arrays, if the folder does not exist; what it returns, JSON-compatible, is kept with them.

    Returns:
        The arrays by name, and what `write` returned.

    Raises:
        ValueError: a file is damaged.
    """
    folder = cache_file(run, prefix, identity, "arrays")
    if not folder.exists():
        made = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}{TEMPORARY}")
        made.mkdir(parents=True)
        try:
            writer = ArrayWriter(made)
            about = write(writer)
            write_json(made / LAYOUT, {"arrays": writer.layout, "about": about})
            with suppress(OSError):  # another training was faster
                made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    try:
        found = json.loads((folder / LAYOUT).read_bytes())
        return {name: _mapped(folder / name, *stated) for name, stated in found["arrays"].items()}, found["about"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = first_line(error)
        raise ValueError(f"{folder} is damaged ({why}): delete it, and it is computed again") from None


def _mapped(path: Path, kind: str, length: int) -> Tensor:
    """A file of numbers as a tensor (length,) that reads the file. Raises ValueError for a file of another size."""
    dtype = np.dtype(kind)
    if path.stat().st_size != length * dtype.itemsize:
        raise ValueError(f"{path.name} must have {length} numbers of {dtype.itemsize} bytes")
    values = np.memmap(path, dtype, "r") if length else np.empty(0, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the tensor must not be written to
        return torch.from_numpy(values)


def cache_file(run: Path, prefix: str, identity: Any, suffix: str) -> Path:
    """A file in the run's cache; the arguments are those of `cached_arrays`. suffix: of its name."""
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    return scratch_folder(run, "encoded") / f"{prefix}{key}.{suffix}"


def cached_arrays(run: Path, prefix: str, identity: Any, make: Callable[[], bytes]) -> tuple[Tensors, dict[str, str]]:
    """Read the tensors and metadata of a safetensors file in the run's cache; if it does not exist, write it first.
    prefix: of the file's name, which a hash of identity, JSON-compatible data from which the content follows,
    completes. make: computes the file's bytes. Raises ValueError for a damaged file.
    """
    from safetensors import SafetensorError

    path = cache_file(run, prefix, identity, "safetensors")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, make())
    try:
        return read_tensors(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, and it is computed again") from None
