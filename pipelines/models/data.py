"""A run's captions, negatives and image features as flat arrays; words are encoded once and kept beside the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from negcap.augment.rng import record_rng
from negcap.pipelines.engine.manifest import hash_table
from negcap.pipelines.engine.shards import list_shards, read_shard, read_table, write_atomically
from negcap.pipelines.models.vocabulary import Sentences, Vocabulary
from negcap.schemas.captions import LANGUAGE
from negcap.schemas.features import TABLE

ENCODED = "encoded"  # folder of a run, one file a vocabulary
LAYOUT = 1  # of that file
SINGULAR = ("a", "an", "one")  # quantities that make no plural
NEGATIVES = ("caption_id", "text", "operator", "family", "negative_id", "replaced")


class Captions(NamedTuple):
    """The English captions of a run, in its order: ids, texts, splits, and the image of each as a number.

    extra: how many at the end are of a table of extra captions; human: (C,) bool, those that people wrote.
    """

    ids: list[str]
    texts: pa.Array
    splits: pa.Array
    image_ids: list[str]
    image: Tensor
    human: Tensor
    extra: int = 0

    def of_splits(self, splits: Sequence[str]) -> Tensor:
        """The numbers of the captions in these splits."""
        return torch.from_numpy(np.flatnonzero(pc.is_in(self.splits, pa.array(list(splits), pa.string()))))

    def of_split(self, split: str) -> Tensor:
        """The numbers of the captions in this split. Raises ValueError where there are none."""
        chosen = self.of_splits([split])
        if not len(chosen):
            known = ", ".join(repr(name) for name in self.splits.unique().to_pylist())
            raise ValueError(f"split must be one of {known}, was: {split!r}")
        return chosen

    def to_measure(self, rows: Tensor) -> Tensor:
        """Those of some captions that a model is measured on: no extra ones, and where people wrote any, theirs."""
        rows = rows[rows < len(self.ids) - self.extra]
        human = rows[self.human[rows]]
        return human if len(human) else rows


class Features(NamedTuple):
    """Image features (I, …), the name of the net they are from, and which of I images have any, (I,) bool."""

    values: Tensor
    backbone: str
    there: Tensor


@dataclass(frozen=True)
class Corpus:
    """C captions and M negatives of them as one flat array of words.

    tokens: (total,) int32; offsets: (C + M + 1,): captions first, then negatives. negative_caption: (M,) the caption of
    each negative; operator, family: (M,) numbers into `operators`, `families`; draw: (M,) its number among those of
    the same caption and operator. plural: (C,) whether a quantity above one of it is replaced by some negative.
    """

    tokens: Tensor
    offsets: Tensor
    captions: int
    negative_caption: Tensor
    operator: Tensor
    family: Tensor
    draw: Tensor
    plural: Tensor
    operators: tuple[str, ...]
    families: tuple[str, ...]

    def made_by(self, operators: Sequence[str]) -> Tensor:
        """(M,) bool: the negatives of these operators."""
        return torch.tensor([name in operators for name in self.operators] or [False])[self.operator]

    def of_families(self, families: Sequence[str]) -> Tensor:
        """(M,) bool: the negatives of these families."""
        return torch.tensor([name in families for name in self.families] or [False])[self.family]


def read_captions(run: Path, extra: str = "") -> Captions:
    """The English captions of a run, then those of its table `extra`.

    Raises FileNotFoundError without such a table, ValueError for one of something else.
    """
    columns = ["caption_id", "image_id", "split", "language", "origin", "text"]
    tables = [pa.concat_tables(read_table(run, name, columns)) for name in ("captions", extra) if name]
    lacking = [name for table in tables for name in columns if name not in table.column_names]
    if lacking:
        raise ValueError(f"extra must be a table of captions, {extra} lacks: {', '.join(lacking)}")
    tables = [rows.filter(pc.equal(rows["language"], LANGUAGE)) for rows in tables]
    rows = pa.concat_tables(rows.replace_schema_metadata() for rows in tables).combine_chunks()
    images = rows["image_id"].combine_chunks().dictionary_encode()
    return Captions(
        rows["caption_id"].to_pylist(),
        rows["text"].combine_chunks(),
        rows["split"].combine_chunks(),
        images.dictionary.to_pylist(),
        torch.from_numpy(images.indices.to_numpy().astype(np.int64)),
        torch.from_numpy(pc.equal(rows["origin"], "human").to_numpy()),
        sum(len(table) for table in tables[1:]),
    )


def read_features(run: Path, image_ids: Sequence[str], table: str = TABLE) -> Features:
    """The features of these images in a table, zeros for one that has none.

    Raises FileNotFoundError without a table of features, ValueError when its shards differ in backbone or shape, lack
    their shape, name an image twice, hold values that are no numbers, or have none of the images.
    """
    shards = list_shards(run / table)
    if not shards:
        raise FileNotFoundError(f"{run} has no {table}: run negcap features first")
    number = {image: n for n, image in enumerate(image_ids)}
    there = torch.zeros(len(image_ids), dtype=torch.bool)
    values, kind, seen = torch.empty(0), None, set[str]()
    for shard in shards:
        rows = read_shard(shard)
        found, backbone = feature_values(rows, f"{table}/{shard.name}")
        if kind and kind != (backbone, found.shape[1:]):
            raise ValueError(f"{table}/{shard.name} must be of the backbone and shape of the shards before it")
        kind = (backbone, found.shape[1:])
        if not len(values):
            values = torch.zeros(len(image_ids), *found.shape[1:], dtype=found.dtype)
        for row, image in enumerate(rows["image_id"].to_pylist()):
            if image in seen:
                raise ValueError(f"{table}/{shard.name} must hold an image once, has again: {image}")
            seen.add(image)
            if image in number:
                values[number[image]], there[number[image]] = found[row], True
    if not there.any():
        raise ValueError(f"{table} of {run} must be of its images, has none of them")
    return Features(values, backbone, there)


def feature_values(rows: pa.Table, name: str) -> tuple[Tensor, str]:
    """A shard's features (rows, *shape), and the net they are from. Raises ValueError as `read_features`."""
    metadata = {key.decode(): value.decode() for key, value in (rows.schema.metadata or {}).items()}
    if "shape" not in metadata:
        raise ValueError(f"{name} must name its shape in its metadata")
    values = _tensor(rows["feature"], tuple(json.loads(metadata["shape"])), name)
    return values, metadata.get("backbone", "")


def _tensor(column: pa.ChunkedArray, shape: tuple[int, ...], name: str) -> Tensor:
    """A column of fixed-size lists or tensors as (rows, *shape)."""
    array = column.combine_chunks()
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if not pa.types.is_fixed_size_list(array.type) or array.type.list_size != int(np.prod(shape)):
        raise ValueError(f"{name}: feature must be lists of {int(np.prod(shape))} numbers, is: {array.type}")
    values = array.flatten().to_numpy(zero_copy_only=False).reshape(-1, *shape)
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: feature must be finite, holds NaN or infinity")
    return torch.from_numpy(np.array(values))


def split_captions(
    captions: Captions, train: Sequence[str], validation: str, held_out: int, usable: Tensor
) -> tuple[Tensor, Tensor]:
    """The captions to train on and those to validate on.

    Without a split `validation`, `held_out` images of the train splits, which hang on nothing but the images' names.
    usable: (I,) bool, the images with features. Raises ValueError when either is empty.
    """
    some, other = captions.of_splits(train), captions.to_measure(captions.of_splits([validation]))
    some, other = some[usable[captions.image[some]]], other[usable[captions.image[other]]]
    if not len(other):
        images = captions.image[some].unique().tolist()
        images.sort(key=lambda image: record_rng(0, "validation", captions.image_ids[image]).random())
        held = torch.isin(captions.image[some], torch.tensor(images[:held_out], dtype=torch.long))
        some, other = some[~held], captions.to_measure(some[held])
    known = ", ".join(repr(name) for name in pc.unique(captions.splits).to_pylist())
    if not len(some):
        raise ValueError(f"train_splits must have captions of images with features, have none: the splits are {known}")
    if not len(other):
        raise ValueError(f"validation needs captions: there is no split {validation!r} and validation_images is 0")
    return some, other


def encode_run(run: Path, captions: Captions, vocabulary: Vocabulary, extra: str = "") -> Corpus:
    """All captions (of a table `extra` too) and negatives of a run in a vocabulary's words; kept in `RUN/encoded`.

    A run without negatives has none. Raises as `hash_table`, and ValueError for a negative of an unknown caption.
    """
    names = ("captions", "negatives", *filter(None, [extra]))
    tables = {name: hash_table(run, name) for name in names if list_shards(run / name)}
    key = hashlib.sha256(json.dumps([LAYOUT, vocabulary.sha256, tables], sort_keys=True).encode()).hexdigest()[:16]
    path = run / ENCODED / f"{key}.safetensors"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, _encoded(run, captions, vocabulary))
    return _read(path, len(captions.ids))


def _encoded(run: Path, captions: Captions, vocabulary: Vocabulary) -> bytes:
    from safetensors.numpy import save

    number = {caption: n for n, caption in enumerate(captions.ids)}
    operators: dict[str, int] = {}
    families: dict[str, int] = {}
    plural = np.zeros(len(captions.ids), bool)
    parts: list[dict[str, np.ndarray]] = []
    sentences = [vocabulary.encode(captions.texts)]
    for rows in _negatives(run):
        try:
            owner = np.array([number[caption] for caption in rows["caption_id"].to_pylist()], np.int64)
        except KeyError as missing:
            raise ValueError(f"negatives of {run} must be of its captions, has one of {missing.args[0]}") from None
        ids = rows["negative_id"].to_pylist()
        counted = pc.and_(
            pc.equal(rows["operator"], "numeral"), pc.invert(pc.is_in(rows["replaced"], pa.array(SINGULAR)))
        )
        plural[owner[counted.to_numpy(zero_copy_only=False)]] = True
        sentences.append(vocabulary.encode(rows["text"]))
        parts.append(
            {
                "negative_caption": owner,
                "operator": _numbers(rows["operator"], operators),
                "family": _numbers(rows["family"], families),
                "draw": np.array([int(name.rpartition(":")[2]) for name in ids], np.int32),
            }
        )
    types = {"negative_caption": np.int64, "operator": np.int64, "family": np.int64, "draw": np.int32}
    arrays = {name: np.concatenate([np.empty(0, t), *(part[name] for part in parts)]) for name, t in types.items()}
    flat = _joined(sentences)
    arrays.update(tokens=flat.tokens, offsets=flat.offsets, plural=plural)
    return save(arrays, {"operators": json.dumps(list(operators)), "families": json.dumps(list(families))})


def _negatives(run: Path) -> Iterator[pa.Table]:
    yield from read_table(run, "negatives", NEGATIVES) if list_shards(run / "negatives") else ()


def _numbers(column: pa.ChunkedArray, known: dict[str, int]) -> np.ndarray:
    """Names as numbers, new ones added to `known`."""
    encoded = column.combine_chunks().dictionary_encode()
    numbers = [known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()]
    return np.array(numbers, np.int64)[encoded.indices.to_numpy()]


def _joined(sentences: Sequence[Sentences]) -> Sentences:
    bases = np.cumsum([0, *(part.offsets[-1] for part in sentences)])
    offsets = [part.offsets[:-1] + base for part, base in zip(sentences, bases, strict=False)]
    return Sentences(np.concatenate([part.tokens for part in sentences]), np.concatenate([*offsets, bases[-1:]]))


def _read(path: Path, captions: int) -> Corpus:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            operators, families = (tuple(json.loads(file.metadata()[name])) for name in ("operators", "families"))
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({error}): remove it, it is made again") from None
    return Corpus(captions=captions, operators=operators, families=families, **tensors)
