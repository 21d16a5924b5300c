"""All captions and negatives of a run as one flat array of word ids, batches of them, and their components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Generator, Tensor

from ...schemas.captions import LANGUAGE
from ...schemas.negatives import NEGATIVES
from ..engine.tables import has_table, read_table, shards_of
from ..tables.columns import read_columns
from .captions import Captions
from .vectors import ComponentLists, SceneGraphs, Texts
from .vocabulary import UNKNOWN_ID, EncodedTexts, WordVocabulary

SINGULAR = ("a", "an", "one")  # quantities of one
CONCRETENESS = "concreteness"
COLUMNS = ("caption_id", "text", "operator", "family", "negative_id", "replaced", "replacement", CONCRETENESS)
NOTHING = pa.schema([NEGATIVES.field(name) for name in COLUMNS]).empty_table()


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

    def texts(self, device: torch.device, graphs: SceneGraphs | None = None) -> Texts:
        """All captions and negatives, with their words on a device."""
        return Texts(self.tokens.to(device), self.offsets, self.captions, graphs, self.language)

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
    others: Mapping[str, WordVocabulary] = MappingProxyType({}),
) -> Corpus:
    """Encode the captions and negatives of a run.

    vocabulary: of the first language of the captions. others: of each further language. A run without negatives has M =
    0, and so have captions of which none are English. Raises ValueError for a negative of an unknown caption.
    """
    vocabularies = {captions.languages[0]: vocabulary, **others}
    number = {caption: n for n, caption in enumerate(captions.ids)}
    shards = shards_of(run, "negatives") if has_table(run, "negatives") and LANGUAGE in vocabularies else ()
    rows = pa.concat_tables([NOTHING, *(read_columns(shard, COLUMNS).select(COLUMNS) for shard in shards)])
    try:
        owner = [number[caption] for caption in rows["caption_id"].to_pylist()]
    except KeyError as missing:
        raise ValueError(f"negatives of {run} must belong to its captions, one belongs to: {missing.args[0]}") from None
    tokens, offsets = _encode_captions(captions, vocabularies)
    if owner:
        false = vocabularies[LANGUAGE].encode(rows["text"])
        tokens = np.concatenate([tokens, false.tokens])
        offsets = np.concatenate([offsets, offsets[-1] + false.offsets[1:]])
    operator, family = (rows[name].combine_chunks().dictionary_encode() for name in ("operator", "family"))
    english = captions.languages.index(LANGUAGE) if LANGUAGE in captions.languages else 0
    return Corpus(
        tokens=torch.from_numpy(tokens),
        offsets=torch.from_numpy(offsets),
        captions=len(captions.ids),
        negative_caption=torch.tensor(owner, dtype=torch.long),
        operator=torch.from_numpy(operator.indices.to_numpy().astype(np.int64)),
        family=torch.from_numpy(family.indices.to_numpy().astype(np.int64)),
        language=torch.cat([captions.language, torch.full((len(owner),), english)]),
        draw=torch.tensor(
            [int(name.rpartition(":")[2]) for name in rows["negative_id"].to_pylist()], dtype=torch.int32
        ),
        was_plural=_above_one(rows, "replaced"),
        is_plural=_above_one(rows, "replacement"),
        concreteness=torch.from_numpy(concreteness(rows)),
        operators=tuple(operator.dictionary.to_pylist()),
        families=tuple(family.dictionary.to_pylist()),
    )


def _encode_captions(captions: Captions, vocabularies: Mapping[str, WordVocabulary]) -> EncodedTexts:
    """The captions in their order, each by the vocabulary of its language."""
    if len(vocabularies) == 1:
        return vocabularies[captions.languages[0]].encode(captions.texts)
    encoded: dict[int, np.ndarray] = {}
    for number, language in enumerate(captions.languages):
        its = (captions.language == number).nonzero()[:, 0].numpy()
        tokens, offsets = vocabularies[language].encode(captions.texts.take(pa.array(its)))
        encoded.update(zip(its.tolist(), np.split(tokens, offsets[1:-1]), strict=True))
    texts = [encoded[row] for row in range(len(captions.ids))]
    return EncodedTexts(np.concatenate(texts), np.cumsum([0, *map(len, texts)], dtype=np.int64))


def _above_one(rows: pa.Table, column: str) -> Tensor:
    """(n,) bool: True for negatives of the family numeral with a quantity above one in this column."""
    singular = pc.is_in(rows[column], pa.array(SINGULAR))
    above = pc.and_(pc.equal(rows["family"], "numeral"), pc.invert(singular))
    return torch.from_numpy(np.array(above.to_numpy(), dtype=bool))


def concreteness(rows: pa.Table) -> np.ndarray:
    """(n,) the concreteness of negatives, 0 for null, float32."""
    return np.array(pc.fill_null(rows[CONCRETENESS].cast(pa.float32()), 0).to_numpy())


TABLES = ("components", "component_vocabulary", "component_exclusions")
KINDS = ("noun", "attribute", "relation")
PARTS = {
    "objects": ("object",),
    "attributes": ("attribute", "object"),
    "relations": ("subject", "relation", "object"),
}  # columns of `components`, and the words that make up an entry of each


def read_whole_table(run: Path, name: str) -> pa.Table:
    """Read all shards of a table that the stage components writes. Raises FileNotFoundError if there are none."""
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
