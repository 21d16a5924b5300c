"""All captions and negatives of a run as one flat array of word ids, cached in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ...schemas.captions import LANGUAGE
from ..engine.tables import has_table, hash_table, shards_of
from ..tables.columns import read_columns
from .cache import cached_arrays
from .captions import Captions
from .vocabulary import EncodedTexts, WordVocabulary

LAYOUT = 4  # version of the arrays in the cache
SINGULAR = ("a", "an", "one")  # quantities of one
COLUMNS = ("caption_id", "text", "operator", "family", "negative_id", "replaced", "replacement")
CONCRETENESS = "concreteness"


@dataclass(frozen=True)
class Corpus:
    """The C captions of a run and their M negatives as one flat array of word ids.

    tokens: (total,) int32. offsets: (C + M + 1,); text i is `tokens[offsets[i]:offsets[i + 1]]`, captions first, then
    negatives. captions: C. negative_caption: (M,) the caption index of each negative. operator, family: (M,) indices
    into `operators` and `families`. language: (C + M,) the index of each text's language among those of the captions;
    negatives are English. draw: (M,) from 0, the position of a negative among those of its caption and
    operator. was_plural, is_plural: (M,) bool, whether the quantity that a numeral negative replaces, or puts in its
    place, is above one; False for negatives of other operators. concreteness: (M,) float32, that of the noun which a
    negative puts in, from 0 to 1; 0 if it puts in none.
    """

    tokens: Tensor
    offsets: Tensor
    captions: int
    negative_caption: Tensor
    operator: Tensor
    family: Tensor
    language: Tensor
    draw: Tensor
    was_plural: Tensor
    is_plural: Tensor
    concreteness: Tensor
    operators: tuple[str, ...]
    families: tuple[str, ...]

    def made_by(self, operators: Sequence[str]) -> Tensor:
        """(M,) bool: True for negatives made by one of these operators."""
        return torch.tensor([name in operators for name in self.operators] or [False])[self.operator]

    def of_families(self, families: Sequence[str]) -> Tensor:
        """(M,) bool: True for negatives of one of these families."""
        return torch.tensor([name in families for name in self.families] or [False])[self.family]


def encode_run(
    run: Path,
    captions: Captions,
    vocabulary: WordVocabulary,
    extra: str = "",
    others: Mapping[str, WordVocabulary] = MappingProxyType({}),
) -> Corpus:
    """Encode the captions and negatives of a run; the result is cached in `RUN/encoded`.

    captions: as read with the same `extra`. vocabulary: of the first language of the captions. others: of each further
    language. A run without negatives has M = 0, and so have captions of which none are English. Raises ValueError for a
    negative of an unknown caption, or a damaged cache.
    """
    names = ("captions", "negatives", *filter(None, [extra]))
    tables = {name: hash_table(run, name) for name in names if has_table(run, name)}
    vocabularies = {captions.languages[0]: vocabulary, **others}
    identity = [LAYOUT, {language: words.sha256 for language, words in vocabularies.items()}, tables]
    tensors, metadata = cached_arrays(run, "", identity, lambda: _encode(run, captions, vocabularies))
    operators, families = (tuple(json.loads(metadata[name])) for name in ("operators", "families"))
    english = captions.languages.index(LANGUAGE) if LANGUAGE in captions.languages else 0
    language = torch.cat([captions.language, torch.full((len(tensors["operator"]),), english)])
    return Corpus(captions=len(captions.ids), operators=operators, families=families, language=language, **tensors)


def _encode(run: Path, captions: Captions, vocabularies: Mapping[str, WordVocabulary]) -> bytes:
    """The arrays of a Corpus as the bytes of a safetensors file."""
    from safetensors.numpy import save

    number = {caption: n for n, caption in enumerate(captions.ids)}
    operators: dict[str, int] = {}
    families: dict[str, int] = {}
    parts: list[dict[str, np.ndarray]] = []
    encoded = [_encode_captions(captions, vocabularies)]
    for rows in _negatives(run) if LANGUAGE in vocabularies else ():
        try:
            owner = np.array([number[caption] for caption in rows["caption_id"].to_pylist()], np.int64)
        except KeyError as missing:
            raise ValueError(
                f"negatives of {run} must belong to its captions, one belongs to: {missing.args[0]}"
            ) from None
        ids = rows["negative_id"].to_pylist()
        encoded.append(vocabularies[LANGUAGE].encode(rows["text"]))
        parts.append(
            {
                "negative_caption": owner,
                "operator": _indices(rows["operator"], operators),
                "family": _indices(rows["family"], families),
                "draw": np.array([int(name.rpartition(":")[2]) for name in ids], np.int32),
                "was_plural": _above_one(rows, "replaced"),
                "is_plural": _above_one(rows, "replacement"),
                "concreteness": concreteness(rows),
            }
        )
    types: dict[str, Any] = {"negative_caption": np.int64, "operator": np.int64, "family": np.int64, "draw": np.int32}
    types |= {"was_plural": np.bool_, "is_plural": np.bool_, "concreteness": np.float32}
    arrays = {name: np.concatenate([np.empty(0, t), *(part[name] for part in parts)]) for name, t in types.items()}
    flat = _concatenate(encoded)
    arrays.update(tokens=flat.tokens, offsets=flat.offsets)
    return save(arrays, {"operators": json.dumps(list(operators)), "families": json.dumps(list(families))})


def _encode_captions(captions: Captions, vocabularies: Mapping[str, WordVocabulary]) -> EncodedTexts:
    """The captions in their order, each by the vocabulary of its language."""
    if len(vocabularies) == 1:
        return vocabularies[captions.languages[0]].encode(captions.texts)
    rows = [(captions.language == n).nonzero()[:, 0].numpy() for n in range(len(captions.languages))]
    parts = [
        vocabularies[language].encode(captions.texts.take(pa.array(its)))
        for language, its in zip(captions.languages, rows, strict=True)
    ]
    tokens, offsets = _concatenate(parts)
    order = np.argsort(np.concatenate(rows))  # of the texts in `tokens`
    sizes = np.diff(offsets)[order]
    ends = np.cumsum(sizes)
    at = np.arange(len(tokens)) + np.repeat(offsets[:-1][order] - ends + sizes, sizes)
    return EncodedTexts(tokens[at], np.concatenate([[0], ends]).astype(np.int64))


def _negatives(run: Path) -> Iterator[pa.Table]:
    for shard in shards_of(run, "negatives") if has_table(run, "negatives") else ():
        yield read_columns(shard, (*COLUMNS, CONCRETENESS))


def _above_one(rows: pa.Table, column: str) -> np.ndarray:
    """(n,) bool: True for negatives of the operator numeral with a quantity above one in this column."""
    singular = pc.is_in(rows[column], pa.array(SINGULAR))
    return pc.and_(pc.equal(rows["family"], "numeral"), pc.invert(singular)).to_numpy()


def concreteness(rows: pa.Table) -> np.ndarray:
    """(n,) the concreteness of negatives, 0 for null, float32."""
    return pc.fill_null(rows[CONCRETENESS].cast(pa.float32()), 0).to_numpy()


def _indices(column: pa.ChunkedArray, known: dict[str, int]) -> np.ndarray:
    """Names as indices, in order of first occurrence over all calls; new names are added to `known`."""
    encoded = column.combine_chunks().dictionary_encode()
    numbers = [known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()]
    return np.array(numbers, np.int64)[encoded.indices.to_numpy()]


def _concatenate(parts: Sequence[EncodedTexts]) -> EncodedTexts:
    bases = np.cumsum([0, *(part.offsets[-1] for part in parts)])
    offsets = [part.offsets[:-1] + base for part, base in zip(parts, bases, strict=False)]
    return EncodedTexts(np.concatenate([part.tokens for part in parts]), np.concatenate([*offsets, bases[-1:]]))
