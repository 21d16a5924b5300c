"""The folder of a trained model: config.json, vocabulary.json, and weights as safetensors and JSON files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..engine.lock import holds_nothing
from ..engine.manifest import describe, hash_value
from ..engine.storage import (
    TEMPORARY,
    UNSEALED,
    is_sealed,
    scratch_folder,
    seal,
    sha256_file,
    write_atomically,
    write_json,
)
from ..engine.tables import has_table, hash_table
from ..readers.files import first_line
from .vocabulary import Vocabularies, WordVocabulary

CONFIG = "config.json"
VOCABULARY = "vocabulary.json"
METRICS = "metrics.jsonl"
BEST = "best"
LAST = "last"
LAYOUT = "layout.json"  # of mapped arrays
# Entries of one kind that stay in the cache of a run. A comparison with its evaluation uses up to six, two trainings of
# other vocabularies side by side a few more; what a rebuilt run has left behind is used no more, and goes in turn
KEPT = 8
Tensors = dict[str, Tensor]
Models = Mapping[str, nn.Module]
Optimizers = Mapping[str, torch.optim.Optimizer]
TIMES = ("seconds", "per_second")  # of a line of metrics.jsonl
ABOUT = "negcap"  # the entry of a safetensors file's metadata
SEALED = re.compile(rb'\\"seal\\": \\"([0-9a-f]{64})\\"')
NONE: Mapping[str, Any] = MappingProxyType({})


def prepare_folder(
    config: Any,
    free: Collection[str],
    size: int,
    net: str,
    tables: Sequence[str],
    words: Vocabularies,
    overwrite: bool,
    say: Callable[[str], None],
) -> None:
    """Prepare the folder config.output for a training; one that holds this very training is left as it is.

    config.json gets what distinguishes trainings: the config without the fields in `free`, the hashes of the tables
    that are read, the size of features and their net.

    Args:
        config: a Settings with `run` and `output`.
        free: the fields of the config that may change when a training is resumed.
        size: D, the size of an image's features.
        net: the network that made the features.
        tables: those of the run that the training reads.
        words: the vocabularies by language.
        overwrite: whether to delete the files of another training, or of a damaged one.
        say: is told that, and why, a damaged model is replaced.

    Raises:
        ValueError: the folder holds another training (the first difference is named), a damaged one, or anything else.
    """
    folder = config.output
    hashes = {name: hash_table(config.run, name) for name in tables if has_table(config.run, name)}
    described = {name: describe(value) for name, value in vars(config).items() if name not in free}
    identity = {"config": described, "inputs": hashes, "features": size, "backbone": net}
    if (folder / CONFIG).exists() or (folder / f"{LAST}.safetensors").exists():
        difference = damage = ""
        try:
            difference = _first_difference(_read_json(folder / CONFIG), json.loads(json.dumps(identity)))
            if not difference:
                _check_training(folder, words)
                return
        except FileNotFoundError as error:
            damage = f"{error.filename} is missing" if error.filename else str(error)
        except (ValueError, OSError) as error:
            damage = str(error)
        if difference and not overwrite:
            difference = f"a model trained with other settings: {difference}"
            raise ValueError(f"{folder} holds {difference} (--overwrite replaces it)")
        if damage and not overwrite:
            raise ValueError(f"{damage} (--overwrite replaces the whole model)")
        if damage:
            say(f"the model in {folder} is replaced: {damage}")
    elif not holds_nothing(folder):
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
        was = old[part]
        now = new[part]
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                changed = f"{name} was {was.get(name)}, is now {now.get(name)}"
                return changed if part == "config" else f"its input table {name} has changed"
    return "" if old == new else "its features differ"


def _check_training(folder: Path, words: Vocabularies) -> None:
    """Check all that a training goes on from. Raises ValueError or OSError, naming the first file that is damaged."""
    for language, vocabulary in read_vocabularies(folder, [*words]).items():
        if vocabulary.words != words[language].words:
            raise ValueError(f"{folder / VOCABULARY} is damaged: its words ({language}) are not those of the training")
    for path in sorted(folder.glob("*.safetensors")):
        weights = read_weights(folder, path.stem)
        if path.stem == LAST:
            weights.read_history()


class Weights(NamedTuple):
    """What a file of weights holds, once its bytes and the files beside it have been checked; see `save`."""

    path: Path
    tensors: Tensors
    state: dict[str, Any]

    def load_into(self, models: Models, optimizers: Optimizers = NONE, entries: Mapping[str, type] = NONE) -> None:
        """Load these weights into models and optimizers, in place. entries: names that the state must have, with the
        types of their values. Raises ValueError for weights of other names or shapes, or another state.
        """
        try:
            for entry, kind in entries.items():
                if type(self.state[entry]) is not kind:
                    raise ValueError(f"{entry} must be of the type {kind.__name__}, was: {self.state[entry]!r:.60}")
            tensors: dict[str, Tensors] = {which: {} for which in (*models, *optimizers)}
            for key, value in self.tensors.items():
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
        except (ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"{self.path} is damaged or of another model: {first_line(error)}") from None

    def read_history(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl up to the epoch of these weights, which `save_last` wrote. Raises ValueError if
        they are not those of the training, FileNotFoundError if a file of weights that was there has gone.
        """
        folder = self.path.parent
        if type(self.state.get("kept")) is not list or type(self.state.get("epoch")) is not int:
            raise ValueError(f"{self.path} is damaged or of another model: it has no state of a training")
        for name in self.state["kept"]:
            if not (folder / f"{name}.safetensors").is_file():
                raise FileNotFoundError(f"{folder / f'{name}.safetensors'} is missing, {self.path.name} is there")
        history = read_history(folder / METRICS, self.state["epoch"])
        if _hash_of_history(history) != self.state.get("history"):
            lines = f"its lines are not those of the {self.state['epoch']} epochs before {self.path.name}"
            raise ValueError(f"{folder / METRICS} is damaged: {lines}")
        return history


def save(folder: Path, name: str, models: Models, state: Mapping[str, Any], optimizers: Optimizers = NONE) -> None:
    """Write `name`.safetensors, with the state in its metadata, then the state as `name`.json; both atomically.

    Tensors are `<key of models>/<parameter>`, and `<key of optimizers>/<index of the parameter>/<entry>`. The metadata
    also have the sha256 of config.json and the vocabularies beside it, and a seal, see `sealed_tensors`.
    """
    stored = {f"{which}/{key}": value for which, model in models.items() for key, value in model.state_dict().items()}
    for which, optimizer in optimizers.items():
        for number, values in optimizer.state_dict()["state"].items():
            stored |= {f"{which}/{number}/{key}": value for key, value in values.items()}
    content = sealed_tensors(stored, {"state": dict(state), "beside": _hashes_beside(folder)})
    write_atomically(folder / f"{name}.safetensors", content)
    write_json(folder / f"{name}.json", state)


def save_last(
    folder: Path, models: Models, state: Mapping[str, Any], optimizers: Optimizers, history: Sequence[Mapping[str, Any]]
) -> None:
    """Write metrics.jsonl, then as `last` all that resuming after the last epoch of the history needs, so that it can
    be told later whether these lines, or files of weights, have been lost.
    """
    write_history(folder / METRICS, history)
    kept = sorted(path.stem for path in folder.glob("*.safetensors") if path.stem != LAST)
    save(folder, LAST, models, {**state, "history": _hash_of_history(history), "kept": kept}, optimizers)


def _hash_of_history(history: Sequence[Mapping[str, Any]]) -> str:
    """The hash of the lines of metrics.jsonl without their times, which differ between equal trainings."""
    return hash_value([{name: value for name, value in line.items() if name not in TIMES} for line in history])


def _hashes_beside(folder: Path) -> dict[str, str]:
    """The sha256 of the files that say what the weights of a folder mean, by name."""
    paths = [path for path in (folder / CONFIG, *sorted(folder.glob("vocabulary*.json"))) if path.is_file()]
    return {path.name: sha256_file(path) for path in paths}


def read_weights(folder: Path, name: str) -> Weights:
    """Read what `save` wrote. Raises FileNotFoundError if it is missing, ValueError if its bytes are not those that
    were written, or if config.json or a vocabulary is not the one that the weights were trained with.
    """
    path = folder / f"{name}.safetensors"
    try:
        tensors, about = read_sealed_tensors(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: train the model first") from None
    state = about.get("state")
    beside = about.get("beside")
    if type(state) is not dict or type(beside) is not dict:
        raise ValueError(f"{path} is damaged or of another model: it has no state of a training")
    now = _hashes_beside(folder)
    for other in sorted({*beside, *now}):
        if beside.get(other) != now.get(other):
            raise ValueError(f"{folder / other} is damaged: it is not the file that {path.name} was trained with")
    return Weights(path, tensors, state)


def restore(
    folder: Path, name: str, models: Models, optimizers: Optimizers = NONE, entries: Mapping[str, type] = NONE
) -> Weights:
    """Load what `save` wrote into these models and optimizers, in place; see `read_weights`, `Weights.load_into`."""
    weights = read_weights(folder, name)
    weights.load_into(models, optimizers, entries)
    return weights


def sealed_tensors(tensors: Tensors, about: Mapping[str, Any]) -> bytes:
    """The bytes of a safetensors file, with JSON in its metadata and a seal, as shards of tables have one: the sha256
    of the file with zeros in the place of the seal. (The metadata have one entry, since safetensors keeps no order.)
    """
    from safetensors.torch import save as to_bytes

    text = json.dumps({"seal": UNSEALED.decode(), **about})
    data = bytearray(to_bytes({name: value.contiguous() for name, value in tensors.items()}, {ABOUT: text}))
    place = _place_of_seal(data)
    assert place is not None
    seal(data, place)
    return bytes(data)


def read_sealed_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and the JSON that `sealed_tensors` wrote. Raises ValueError if the bytes are not those that were
    written, OSError if the file cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = path.read_bytes()
    place = _place_of_seal(data)
    if place is None or not is_sealed(data, place):
        raise ValueError(f"{path} is damaged: its bytes are not those that were written")
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return load(data), json.loads(header["__metadata__"][ABOUT])
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {first_line(error)}") from None


def _place_of_seal(data: bytes | bytearray) -> slice | None:
    """Where a safetensors file has its seal: in its header, whose length its first 8 bytes state."""
    place = SEALED.search(data, 8, 8 + int.from_bytes(data[:8], "little"))
    return None if place is None else slice(*place.span(1))


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


def write_history(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
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
    _note_use(folder)
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


def _note_use(entry: Path) -> None:
    """Mark an entry of the cache as used now, and delete those of its kind that were used longest ago; KEPT stay.

    An entry is what has one name without its suffixes, such as features-4f0c.safetensors and features-4f0c.npy. What
    another process has mapped into memory it can read on. What is being written has a temporary name, and stays. Of a
    run that cannot be written to, nothing is noted or deleted.
    """
    kind = entry.name.rpartition("-")[0]
    parts: dict[str, list[Path]] = {}
    with suppress(OSError):  # another process deletes, too
        os.utime(entry)
        for path in entry.parent.glob(f"{kind}-*"):
            name = path.name.partition(".")[0]
            if name.rpartition("-")[0] == kind and path.suffix != TEMPORARY:
                parts.setdefault(name, []).append(path)
        last_use = {name: max(path.stat().st_mtime_ns for path in paths) for name, paths in parts.items()}
        for name in sorted(last_use, key=lambda name: last_use[name])[:-KEPT]:
            for path in sorted(parts[name], reverse=True):  # .safetensors, which says that an entry is there, is first
                if path.is_dir():
                    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
                    path.rename(unfinished)  # half an entry has no entry's name
                    shutil.rmtree(unfinished, ignore_errors=True)
                else:
                    path.unlink()


Arrays = tuple[Tensors, dict[str, Any]]


def cached_arrays(run: Path, prefix: str, identity: Any, make: Callable[[], Arrays]) -> Arrays:
    """Read the tensors and the JSON of a safetensors file in the run's cache; if it does not exist, write it first.
    prefix: of the file's name, which a hash of identity, JSON-compatible data from which the content follows,
    completes. make: computes the tensors and the JSON. Raises ValueError for a damaged file.
    """
    path = cache_file(run, prefix, identity, "safetensors")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, sealed_tensors(*make()))
    _note_use(path)
    try:
        return read_sealed_tensors(path)
    except ValueError as error:
        raise ValueError(f"{error}; delete it, and it is computed again") from None
