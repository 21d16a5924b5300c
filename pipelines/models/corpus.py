"""All captions and negatives of a run as one flat array of word ids, cached in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Generator, Tensor

from ...schemas.captions import LANGUAGE
from ..engine.tables import has_table, hash_table, read_table, shards_of
from ..tables.columns import read_columns
from .captions import Captions
from .checkpoint import cached_arrays
from .vectors import ComponentLists, SceneGraphs
from .vocabulary import UNKNOWN_ID, EncodedTexts, WordVocabulary

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


TABLES = ("components", "component_vocabulary", "component_exclusions")
KINDS = ("noun", "attribute", "relation")
PARTS = {
    "objects": ("object",),
    "attributes": ("attribute", "object"),
    "relations": ("subject", "relation", "object"),
}  # columns of `components`, and the words that make up an entry of each


def read_whole_table(run: Path, name: str) -> pa.Table:
    """Read all shards of a table that `negcap components` writes. Raises FileNotFoundError if there are none."""
    return pa.concat_tables(read_table(run, name)).combine_chunks()


def component_names(run: Path) -> list[str]:
    """The nouns, attributes and relations in a run's component_vocabulary: "dog", "tennis racket", "sit on".

    Raises FileNotFoundError if the run lacks that table.
    """
    vocabulary = read_whole_table(run, "component_vocabulary")
    pairs = zip(vocabulary["kind"].to_pylist(), vocabulary["words"].to_pylist(), strict=True)
    return [words[0] for kind, words in pairs if kind in KINDS]


def read_caption_rows(run: Path, name: str, caption_ids: Sequence[str]) -> pa.Table:
    """The rows of a table with one row per caption, for these captions and in their order.

    Raises FileNotFoundError for a missing table, ValueError for a caption without a row.
    """
    rows = read_whole_table(run, name)
    row = {caption: n for n, caption in enumerate(rows["caption_id"].to_pylist())}
    try:
        return rows.take([row[caption] for caption in caption_ids]).combine_chunks()
    except KeyError as missing:
        raise ValueError(f"{name} of {run} must have a row for each caption, has none for: {missing.args[0]}") from None


def read_graphs(run: Path, captions: Captions, vocabulary: WordVocabulary, device: torch.device) -> SceneGraphs:
    """The scene graphs of a run's captions, as word ids on `device`. Raises as `read_caption_rows`."""
    return encode_components(read_caption_rows(run, "components", captions.ids), vocabulary, device)


def encode_components(components: pa.Table, vocabulary: WordVocabulary, device: torch.device) -> SceneGraphs:
    """The rows of a table `components` as scene graphs: word ids on `device`, offsets on the CPU."""
    lists = []
    for column, parts in PARTS.items():
        entries = components[column].combine_chunks()
        sizes = entries.value_lengths().to_numpy(zero_copy_only=False)
        flat = entries.flatten()
        words = np.stack([_encode_names(vocabulary, flat.field(part)) for part in parts], 1)
        lists.append(ComponentLists(torch.from_numpy(words).to(device), _offsets(sizes)))
    return SceneGraphs(*lists)


def component_ids(vocabulary: WordVocabulary, names: Iterable[str]) -> list[int]:
    """The word id of each name of an object, attribute or relation.

    A name that is not in the vocabulary gets the id of its last word ("soccer game": that of "game"), or else that of
    <unk>.
    """
    ids = vocabulary.ids
    return [ids.get(name, ids.get(name.rpartition(" ")[2], UNKNOWN_ID)) for name in names]


def _encode_names(vocabulary: WordVocabulary, names: pa.Array) -> np.ndarray:
    encoded = names.dictionary_encode()
    return np.array(component_ids(vocabulary, encoded.dictionary.to_pylist()), np.int64)[encoded.indices.to_numpy()]


def _offsets(sizes: np.ndarray) -> Tensor:
    """Offsets (n + 1,) of n consecutive lists of these sizes: list i covers offsets[i] to offsets[i + 1]."""
    return torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


class PackedSentences(NamedTuple):
    """B sentences in the layout of torch's PackedSequence: all first words, then all second words, …; longest first.

    positions: (total,) indices of the words in the flat array of word ids. sizes: (T,) how many sentences have a word
    at each step. inverse: (B,) the position of each sentence in the packed order. All on the CPU.
    """

    positions: Tensor
    sizes: Tensor
    inverse: Tensor


def pack_sentences(offsets: Tensor, rows: Tensor, longest: int | None = None) -> PackedSentences:
    """The packed layout of sentences `rows` (B,) of a flat array of word ids; offsets: (n + 1,), where each starts.

    longest: how many of a sentence's words are used, at most; None: all.
    """
    starts = offsets[rows]
    lengths = offsets[rows + 1] - starts
    lengths = lengths if longest is None else lengths.clamp(max=longest)
    lengths, order = lengths.sort(descending=True, stable=True)
    steps = torch.arange(int(lengths[0]))[:, None]
    present = steps < lengths[None, :]
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order))
    return PackedSentences((starts[order][None, :] + steps)[present], present.sum(1), inverse)


class NegativePool(NamedTuple):
    """Negatives to sample from, grouped by caption: those of caption c are `rows[starts[c]:starts[c + 1]]`.

    rows: (m,) indices among all M negatives of the run. starts: (C + 1,). weights: (m,) sampling weights of `rows`.
    """

    rows: Tensor
    starts: Tensor
    weights: Tensor


def build_pool(caption: Tensor, family: Tensor, wanted: Tensor, captions: int) -> NegativePool:
    """A pool of the wanted negatives, weighted so that all families that a caption has are equally likely.

    caption, family: (M,) indices for each negative. wanted: (M,) bool. captions: C.
    """
    rows = wanted.nonzero()[:, 0]
    rows = rows[caption[rows].argsort(stable=True)]
    owner = caption[rows]
    starts = torch.zeros(captions + 1, dtype=torch.long)
    starts[1:] = torch.bincount(owner, minlength=captions).cumsum(0)
    families = int(family.max()) + 1 if len(family) else 1
    kind = owner * families + family[rows]
    weights = 1.0 / torch.bincount(kind, minlength=1)[kind].float()
    return NegativePool(rows, starts, weights)


class SampledNegatives(NamedTuple):
    """P negatives sampled for a batch.

    rows: (P,) indices among all negatives of the run. owner: (P,) the index in the batch of the caption each belongs
    to.
    """

    rows: Tensor
    owner: Tensor


def sample_negatives(pool: NegativePool, captions: Tensor, n: int, generator: Generator) -> SampledNegatives:
    """Sample n negatives per caption of a batch (B,), by weight and without replacement; all, if it has at most n.

    Draws an exponential variable per negative, with its weight as rate, and takes the n smallest (Efraimidis and
    Spirakis 2006).
    """
    starts = pool.starts[captions]
    counts = pool.starts[captions + 1] - starts
    width = int(counts.max()) if len(counts) else 0
    if width == 0:
        return SampledNegatives(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long))
    slots = torch.arange(width)[None, :]
    present = slots < counts[:, None]
    at = (starts[:, None] + slots).clamp(max=len(pool.rows) - 1)
    arrival = torch.empty(at.shape).exponential_(generator=generator) / pool.weights[at]
    arrival = arrival.masked_fill(~present, float("inf"))
    chosen = arrival.topk(min(n, width), dim=1, largest=False).indices
    kept = present.gather(1, chosen)
    owner = torch.arange(len(captions))[:, None].expand_as(chosen)
    return SampledNegatives(pool.rows[at.gather(1, chosen)][kept], owner[kept])


def shuffled_batches(captions: Tensor, batch_size: int, generator: Generator) -> Iterator[Tensor]:
    """Batches of `batch_size` captions (n,), shuffled; a last batch of one, which has no negatives, is left out."""
    order = captions[torch.randperm(len(captions), generator=generator)]
    return (batch for batch in order.split(batch_size) if len(batch) > 1)
