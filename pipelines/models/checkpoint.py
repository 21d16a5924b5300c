"""The folder of a trained model: config.json, vocabulary.json, and weights as safetensors and JSON files."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from ..engine.lock import holds_nothing
from ..engine.manifest import Identity, describe, hash_value
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

if TYPE_CHECKING:
    from .config import TrainConfig
    from .settings import CaptionerConfig

CONFIG = "config.json"
VOCABULARY = "vocabulary.json"
METRICS = "metrics.jsonl"
BEST = "best"
LAST = "last"
LAYOUT = "layout.json"  # of mapped arrays
# Entries of one kind, such as encoded texts, that stay in the cache of a run; the oldest are deleted. A comparison with
# its evaluation uses up to six, two trainings with other vocabularies side by side a few more
KEPT_ENTRIES = 8
JsonObject = dict[str, Any]  # an object of a JSON file, whose entries are checked where they are used
JsonMapping = Mapping[str, Any]  # the same, which is only read
Content = TypeVar("Content")
Tensors = dict[str, Tensor]
Models = Mapping[str, nn.Module]
Optimizers = Mapping[str, torch.optim.Optimizer]
TIMES = ("seconds", "per_second")  # of a line of metrics.jsonl
ABOUT = "negcap"  # the entry of a safetensors file's metadata
# the seal in that entry, JSON inside the JSON of the header: its quotation marks are escaped
SEALED = re.compile(rb'\\"seal\\": \\"([0-9a-f]{64})\\"')
NO_OPTIMIZERS: Optimizers = MappingProxyType({})


@dataclass(frozen=True)
class TrainingIdentity:
    """What distinguishes a training, as config.json has it: see `prepare_folder`."""

    config: JsonObject
    inputs: dict[str, str]
    features: int
    backbone: str


def prepare_folder(
    config: TrainConfig | CaptionerConfig,
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
        config: of the training.
        free: the fields of the config that may change when a training is resumed.
        size: D, the size of an image's features.
        net: the network that made the features.
        tables: those of the run that the training reads.
        words: the vocabularies by language.
        overwrite: whether to delete the files of another training, or of a damaged one.
        say: gets a line that says why a damaged model is replaced.

    Raises:
        ValueError: the folder holds another training (the first difference is named), a damaged one, or anything else.
    """
    folder = config.output
    inputs = {name: hash_table(config.run, name) for name in tables if has_table(config.run, name)}
    described = {name: describe(value) for name, value in vars(config).items() if name not in free}
    identity = TrainingIdentity(described, inputs, size, net)
    if (folder / CONFIG).exists() or (folder / f"{LAST}.safetensors").exists():
        if _holds_training(folder, identity, words, overwrite, say):
            return
    elif not holds_nothing(folder):
        raise ValueError(f"output must be a new folder, an empty one, or that of a model, was: {folder}")
    # config.json is written last: a folder without it does not count as that of a training
    _delete_training(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file, vocabulary in zip(_vocabulary_files(folder, [*words]), words.values(), strict=True):
        write_json(file, list(vocabulary.words))
    write_json(folder / CONFIG, asdict(identity))


def _holds_training(
    folder: Path, identity: TrainingIdentity, words: Vocabularies, overwrite: bool, say: Callable[[str], None]
) -> bool:
    """Whether the folder of a model holds the training with this identity; if not, it may be replaced.

    Raises ValueError if it holds another training or a damaged one, and must not be overwritten.
    """
    difference = ""
    damage = ""
    try:
        difference = _first_difference(_read_json(folder / CONFIG, TrainingIdentity), identity)
        if not difference:
            _check_training(folder, words)
            return True
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
    return False


def _delete_training(folder: Path) -> None:
    """Delete what trainings write to a folder, and nothing else."""
    weights = [*folder.glob("*.safetensors")]
    states = [path.with_suffix(".json") for path in weights]
    for path in (folder / CONFIG, folder / METRICS, *folder.glob("vocabulary*.json"), *weights, *states):
        path.unlink(missing_ok=True)


def _first_difference(old: TrainingIdentity, new: TrainingIdentity) -> str:
    """The first difference of two trainings, as `margin was 0.2, is now 0.3`; empty if there is none."""

    def as_of_stage(training: TrainingIdentity) -> Identity:
        """The training as if it were a stage of a build, since the engine can tell how two stages differ."""
        features = {"size of features": str(training.features), "backbone": training.backbone}
        return Identity("train", training.config, features, tables=(), code="", inputs=training.inputs)

    return as_of_stage(old).difference(as_of_stage(new))


def _check_training(folder: Path, words: Vocabularies) -> None:
    """Check all files that a training resumes from. Raises ValueError or OSError, naming the first damaged one."""
    for language, vocabulary in read_vocabularies(folder, [*words]).items():
        if vocabulary.words != words[language].words:
            raise ValueError(f"{folder / VOCABULARY} is damaged: its words ({language}) are not those of the training")
    # a training reads only `last`; `best` is checked, too, as it will be used after the training
    for path in sorted(folder.glob("*.safetensors")):
        weights = read_weights(folder, path.stem)
        if path.stem == LAST:
            weights.read_history()


class Weights(NamedTuple):
    """The content of a file of weights whose bytes, and files beside it, have been checked; see `save`."""

    path: Path
    tensors: Tensors
    state: JsonObject

    def load_into(self, models: Models, optimizers: Optimizers = NO_OPTIMIZERS) -> None:
        """Load these weights into models and optimizers, in place. Raises ValueError for other names or shapes."""
        try:
            for name, model in models.items():
                model.load_state_dict(self._tensors_of(name))
            for name, optimizer in optimizers.items():
                by_parameter: dict[int, Tensors] = {}  # by the parameter's number, Adam's averages of its gradients
                for key, value in self._tensors_of(name).items():
                    number, _, entry = key.partition("/")
                    by_parameter.setdefault(int(number), {})[entry] = value
                # learning rates and the like stay those of the config, which may have more epochs than before
                groups = optimizer.state_dict()["param_groups"]
                optimizer.load_state_dict({"state": by_parameter, "param_groups": groups})
        except (ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"{self.path} is damaged or of another model: {first_line(error)}") from None

    def _tensors_of(self, name: str) -> Tensors:
        """The tensors of the model or optimizer with this name, see `save`; by their names in it."""
        prefix = f"{name}/"
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}

    def read_history(self) -> list[JsonObject]:
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


def save(folder: Path, name: str, models: Models, state: JsonObject, optimizers: Optimizers = NO_OPTIMIZERS) -> None:
    """Write the weights of models as NAME.safetensors, with a state in its metadata, then the state as NAME.json.

    Each file is written completely or not at all. Tensors are `<key of models>/<parameter>`, and `<key of
    optimizers>/<index of the parameter>/<entry>`. The metadata also have the sha256 of config.json and the vocabularies
    beside it, and a seal, see `sealed_tensors`.

    Args:
        folder: of the model.
        name: of the files, without suffix.
        models: by names that begin those of the tensors.
        state: what else is known of these weights, such as the epoch.
        optimizers: whose state is saved, too.
    """
    tensors = {}
    for model_name, model in models.items():
        for key, value in model.state_dict().items():
            tensors[f"{model_name}/{key}"] = value
    for optimizer_name, optimizer in optimizers.items():
        for number, entries in optimizer.state_dict()["state"].items():
            for key, value in entries.items():
                tensors[f"{optimizer_name}/{number}/{key}"] = value
    content = sealed_tensors(tensors, {"state": dict(state), "beside": _hashes_beside(folder)})
    write_atomically(folder / f"{name}.safetensors", content)
    write_json(folder / f"{name}.json", state)


def save_last(
    folder: Path, models: Models, state: JsonObject, optimizers: Optimizers, history: Sequence[JsonObject]
) -> None:
    """Write metrics.jsonl, then as `last` all that is needed to resume after the last epoch of the history.

    `last` also has a hash of metrics.jsonl and the names of other weights, to notice later if some are lost.

    Args:
        folder: of the model.
        models, state, optimizers: see `save`.
        history: a line for each epoch so far.
    """
    # before the weights: lines without weights are cut off when the training resumes, weights without lines are damage
    write_history(folder / METRICS, history)
    # the names of other weights, such as `best`
    kept = sorted(path.stem for path in folder.glob("*.safetensors") if path.stem != LAST)
    save(folder, LAST, models, {**state, "history": _hash_of_history(history), "kept": kept}, optimizers)


def _hash_of_history(history: Sequence[JsonObject]) -> str:
    """The hash of the lines of metrics.jsonl without their times, which differ between equal trainings."""
    return hash_value([{name: value for name, value in line.items() if name not in TIMES} for line in history])


def _hashes_beside(folder: Path) -> dict[str, str]:
    """The sha256 of the files that say what the weights of a folder mean, by name."""
    paths = [path for path in (folder / CONFIG, *sorted(folder.glob("vocabulary*.json"))) if path.is_file()]
    return {path.name: sha256_file(path) for path in paths}


def read_weights(folder: Path, name: str) -> Weights:
    """Read a file that `save` wrote. Raises FileNotFoundError if it is missing, ValueError if its bytes have changed,
    or if config.json or a vocabulary is not the one that the weights were trained with.
    """
    path = folder / f"{name}.safetensors"
    try:
        stored = read_sealed_tensors(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: train the model first") from None
    state = stored.about.get("state")
    beside = stored.about.get("beside")
    if type(state) is not dict or type(beside) is not dict:
        raise ValueError(f"{path} is damaged or of another model: it has no state of a training")
    # the weights mean nothing without the words and the settings that they were trained with
    now = _hashes_beside(folder)
    for other in sorted({*beside, *now}):
        if beside.get(other) != now.get(other):
            raise ValueError(f"{folder / other} is damaged: it is not the file that {path.name} was trained with")
    return Weights(path, stored.tensors, state)


def restore(folder: Path, name: str, models: Models, optimizers: Optimizers = NO_OPTIMIZERS) -> Weights:
    """Load weights that `save` wrote into models and optimizers, in place; see `read_weights`, `Weights.load_into`."""
    weights = read_weights(folder, name)
    weights.load_into(models, optimizers)
    return weights


class StoredTensors(NamedTuple):
    """tensors: by name. about: further facts about them, compatible with JSON."""

    tensors: Tensors
    about: JsonObject


def sealed_tensors(tensors: Tensors, about: JsonObject) -> bytes:
    """The bytes of a safetensors file, with JSON in its metadata and a seal, as shards of tables have one: the sha256
    of the file with zeros in the place of the seal. (The metadata have one entry, since safetensors keeps no order.)
    """
    from safetensors.torch import save as to_bytes

    # the seal is of fixed length, so that it can be put in place after the bytes are known
    text = json.dumps({"seal": UNSEALED.decode(), **about})
    data = bytearray(to_bytes({name: value.contiguous() for name, value in tensors.items()}, {ABOUT: text}))
    place = _place_of_seal(data)
    assert place is not None
    seal(data, place)
    return bytes(data)


def read_sealed_tensors(path: Path) -> StoredTensors:
    """The tensors and the JSON that `sealed_tensors` wrote. Raises ValueError if the bytes are not those that were
    written, OSError if the file cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = path.read_bytes()
    place = _place_of_seal(data)
    # checked before safetensors parses anything, since a file with a flipped bit in a weight is valid to it
    if place is None or not is_sealed(data, place):
        raise ValueError(f"{path} is damaged: its bytes are not those that were written")
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return StoredTensors(load(data), json.loads(header["__metadata__"][ABOUT]))
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {first_line(error)}") from None


def _place_of_seal(data: bytes | bytearray) -> slice | None:
    """Where a safetensors file has its seal: in its header, which follows 8 bytes with its length; None: nowhere."""
    place = SEALED.search(data, 8, 8 + int.from_bytes(data[:8], "little"))
    return None if place is None else slice(*place.span(1))


def read_identity(folder: Path, verb: str) -> TrainingIdentity:
    """What distinguishes the training of a model, see `prepare_folder`; verb: the command that makes such folders.
    Raises FileNotFoundError if the folder has no config.json, ValueError for damaged JSON.
    """
    if not (folder / CONFIG).is_file():
        lacking = f"has no {CONFIG}: negcap {verb} creates one"
        raise FileNotFoundError(f"{folder} must be the folder of a trained model, {lacking}")
    return _read_json(folder / CONFIG, TrainingIdentity)


def read_vocabularies(folder: Path, languages: Sequence[str]) -> dict[str, WordVocabulary]:
    """The vocabularies of a model by language: vocabulary.json of the first one, and files such as vocabulary.de.json.
    Raises FileNotFoundError for a missing file, ValueError for a damaged one.
    """
    vocabularies = {}
    for language, path in zip(languages, _vocabulary_files(folder, languages), strict=True):
        vocabularies[language] = WordVocabulary(tuple(_read_json(path, list[str])))
    return vocabularies


def _vocabulary_files(folder: Path, languages: Sequence[str]) -> list[Path]:
    """The file of the vocabulary of each language of a model; that of the first has no code in its name."""
    return [folder / VOCABULARY, *(folder / f"vocabulary.{language}.json" for language in languages[1:])]


def _read_json(path: Path, kind: type[Content]) -> Content:
    """The content of a JSON file that negcap wrote. Raises ValueError if it is damaged or of another type."""
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = " ".join(map(str, fault["loc"]))
        raise ValueError(f"{path} must be what negcap wrote, is damaged: {where} {fault['msg']}") from None


# an epoch's generator begins with seed * SEED_STRIDE + epoch
SEED_STRIDE = 1 << 20  # more than any number of epochs, so that no two seeds share an epoch's random numbers


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of an epoch (counted from 1): a resumed training uses the random numbers of an uninterrupted one."""
    return seed * SEED_STRIDE + epoch


def read_history(path: Path, epochs: float = math.inf) -> list[JsonObject]:
    """The lines of metrics.jsonl for the first `epochs` epochs; it may have more than the weights beside it know of.
    Raises ValueError for a damaged file.
    """
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() and epochs else []
        return [line for line in map(json.loads, lines) if line["epoch"] <= epochs]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} must have one JSON object with an epoch per line, is damaged: {error}") from None


def write_history(path: Path, history: Sequence[JsonObject]) -> None:
    """Write metrics.jsonl, one line per epoch, atomically."""
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in history).encode())


class ArrayWriter:
    """Writes arrays, each of which is a file of a folder, part by part, so that they may be larger than the memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.layout: dict[str, tuple[str, tuple[int, ...]]] = {}  # by name, the type of an array and its shape

    def append(self, **arrays: np.ndarray) -> None:
        """Append rows (n, …) to the arrays of these names; rows of those that exist have the same type and shape."""
        for name, values in arrays.items():
            without_rows = values.dtype.str, (0, *values.shape[1:])  # the layout of an array that is new
            kind, (length, *row_shape) = self.layout.get(name, without_rows)
            if kind != values.dtype.str:
                raise TypeError(f"{name} must be {kind}, was: {values.dtype.str}")
            # opened for each part, so that only one file is open at a time
            with (self._folder / name).open("ab") as file:
                file.write(np.ascontiguousarray(values).data)
            self.layout[name] = kind, (length + len(values), *row_shape)

    def place(self, name: str, positions: Sequence[int], values: np.ndarray, length: int) -> None:
        """Write values (n, …) at n positions of an array (length, …) whose rows are zeros until they are written.

        Each row is written to the file, and not through a map of it, where a full disk would be no error but a crash.
        """
        path = self._folder / name
        path.touch()
        row_size = values.itemsize * math.prod(values.shape[1:])
        with path.open("r+b") as file:
            file.truncate(length * row_size)
            for position, row in zip(positions, np.ascontiguousarray(values), strict=True):
                file.seek(position * row_size)
                file.write(row.data)
        self.layout[name] = values.dtype.str, (length, *values.shape[1:])


def mapped_arrays(
    run: Path, prefix: str, identity: object, write: Callable[[ArrayWriter], JsonObject | None]
) -> StoredTensors:
    """Arrays in a folder of the run's cache, mapped into memory: parts that are not read stay on the disk.

    Changes of the arrays stay in memory; the files are not changed.

    Args:
        run: the folder of a run.
        prefix: of the folder's name, which a hash of `identity` completes.
        identity: JSON-compatible data from which the content follows.
        write: writes the arrays, if the folder does not exist yet. Its result, JSON-compatible, is kept with them.

    Returns:
        The arrays by name, and what `write` returned.

    Raises:
        ValueError: a file is damaged.
    """
    folder = cache_folder(run, prefix, identity)
    if not folder.exists():
        _write_arrays(folder, write)
    _note_use(folder)
    try:
        content = json.loads((folder / LAYOUT).read_bytes())
        arrays = {name: _mapped(folder / name, *layout) for name, layout in content["arrays"].items()}
        return StoredTensors(arrays, content["about"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = first_line(error)
        raise ValueError(f"{folder} is damaged ({why}): delete it, and it is computed again") from None


def _write_arrays(folder: Path, write: Callable[[ArrayWriter], JsonObject | None]) -> None:
    """Write the arrays to a folder of a temporary name, which is renamed to this one when it is complete."""
    unfinished = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}{TEMPORARY}")
    unfinished.mkdir(parents=True)
    try:
        writer = ArrayWriter(unfinished)
        about = write(writer)
        write_json(unfinished / LAYOUT, {"arrays": writer.layout, "about": about})
        with suppress(OSError):  # another training was faster
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _mapped(path: Path, kind: str, shape: Sequence[int]) -> Tensor:
    """A file of numbers as a tensor that reads the file. Raises ValueError for a file of another size."""
    dtype = np.dtype(kind)
    if path.stat().st_size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{path.name} must have {math.prod(shape)} numbers of {dtype.itemsize} bytes")
    # copy on write, as torch takes only arrays that may be written to; an empty file cannot be mapped
    values = np.memmap(path, dtype, "c", shape=tuple(shape)) if math.prod(shape) else np.empty(shape, dtype)
    return torch.from_numpy(values)


def cache_folder(run: Path, prefix: str, identity: object) -> Path:
    """The folder in a run's cache whose name is `prefix` and a hash of the JSON-compatible data `identity`."""
    # 16 hex digits are 64 bits: no two entries of a run share a name by chance
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    return scratch_folder(run, "encoded") / f"{prefix}{key}.arrays"


def _note_use(entry: Path) -> None:
    """Mark a folder of the cache as used now, and delete all but the KEPT_ENTRIES of its kind that were used last. The
    kind is the name up to its last hyphen: features-4f0c.arrays, texts-90ab.arrays.

    A process that has mapped a deleted file into memory can still read it. Folders that are being written have
    temporary names, and stay. In a run that cannot be written to, nothing is noted or deleted.
    """
    kind = entry.name.rpartition("-")[0]
    with suppress(OSError):  # another process deletes, too
        os.utime(entry)
        entries = [
            path
            for path in entry.parent.glob(f"{kind}-*")
            if path.name.rpartition("-")[0] == kind and path.suffix != TEMPORARY
        ]
        for path in sorted(entries, key=lambda path: path.stat().st_mtime_ns)[:-KEPT_ENTRIES]:
            # renamed first, as a half-deleted entry must not have a name that others read
            unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
            path.rename(unfinished)
            shutil.rmtree(unfinished, ignore_errors=True)
