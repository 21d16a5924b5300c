"""A run's captions, negatives and components as tensors: what models are trained on, and evaluated with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Generator, Tensor

from ...augment.reproducible import record_rng
from ...schemas.captions import LANGUAGE
from ..engine.tables import has_table, hash_table, read_table, shards_of
from ..tables.columns import UNSPLIT, check_splits, stored_splits
from ..tables.pairs import CaptionsWithNegatives, captions_with_negatives
from .checkpoint import ArrayWriter, JsonObject, mapped_arrays
from .device import to_device
from .features import ImageFeatures
from .vocabulary import UNKNOWN_ID, EncodedTexts, Vocabularies, WordVocabulary

HELD_OUT = 500  # images, at most, that are held out for validation


class Captions(NamedTuple):
    """The C captions of a run in some languages, in the run's order. A choice of captions is their indices, (n,).

    ids, texts, splits: one entry per caption. image_ids: one per image (I). image, language: (C,) indices into
    image_ids and `languages`, which are ISO 639 codes. human: (C,) bool, True for a caption written by a person. extra:
    how many captions, the last ones, come from the table `extra` (see `read_captions`).
    """

    ids: list[str]
    texts: pa.Array
    splits: pa.Array
    image_ids: list[str]
    image: Tensor
    human: Tensor
    language: Tensor
    languages: tuple[str, ...]
    extra: int = 0

    def in_language(self, captions: Tensor, language: str) -> Tensor:
        """Those of the captions that are in this language."""
        return captions[self.language[captions] == self.languages.index(language)]

    def require_every_language(self, captions: Tensor, what: str) -> None:
        """Raise ValueError, naming the first image whose captions lack a language; what: the role of the captions."""
        present = torch.zeros(len(self.image_ids), len(self.languages), dtype=torch.bool)
        present[self.image[captions], self.language[captions]] = True
        lacking = (present.any(1) & ~present.all(1)).nonzero()[:, 0]
        if len(lacking):
            first = int(lacking[0])
            missing = self.languages[int(present[first].long().argmin())]
            count = f"{len(lacking):,} of {int(present.any(1).sum()):,} images lack a language"
            rule = f"every image {what} must have captions in {' and '.join(self.languages)}"
            raise ValueError(f"{rule}, {self.image_ids[first]} has none in: {missing} ({count})")

    def of_splits(self, splits: Sequence[str]) -> Tensor:
        """The captions in these splits, in ascending order; empty if there are none."""
        return torch.from_numpy(np.flatnonzero(pc.is_in(self.splits, pa.array(stored_splits(splits), pa.string()))))

    def of_split(self, split: str) -> Tensor:
        """The captions in this split. Raises ValueError, listing the splits, if there are none."""
        check_splits([split], self.splits.unique().to_pylist(), "captions")
        return self.of_splits([split])

    def for_metrics(self, captions: Tensor) -> Tensor:
        """Those of the captions that metrics are computed on: not those of the extra table; and if people wrote some,
        only these.
        """
        captions = captions[~self.are_extra(captions)]
        by_people = captions[self.human[captions]]
        return by_people if len(by_people) else captions

    def to_evaluate(
        self, split: str, available: Tensor, limit: int | None, per_image: int | None = None, language: str = LANGUAGE
    ) -> Tensor:
        """The captions that an evaluation on a split uses.

        Args:
            split: its name.
            available: (I,) bool, images with features.
            limit: only the first so many images; None: all.
            per_image: only the first so many captions of each image; None: all.
            language: only captions in this language.

        Raises:
            ValueError: there is no such split, or it has no captions of images with features.
        """
        chosen = self.for_metrics(self.in_language(self.of_split(split), language))
        chosen = chosen[available[self.image[chosen]]]
        if not len(chosen):
            spoken = f" in {language}" if len(self.languages) > 1 else ""
            raise ValueError(f"split {split!r} must have captions{spoken} of images with features, has none")
        if limit:
            # images are numbered as the run names them first, so that the lowest numbers are its first images
            chosen = chosen[torch.isin(self.image[chosen], self.image[chosen].unique()[:limit])]
        return self.first_of_images(chosen, per_image) if per_image else chosen

    def first_of_images(self, captions: Tensor, n: int) -> Tensor:
        """Those of the captions (C,) that are among the first n of their image, in the same order."""
        return captions[places_in_groups(self.image[captions]) < n]

    def are_extra(self, captions: Tensor) -> Tensor:
        """Which of the captions come from the table `extra`; (n,) bool."""
        return captions >= len(self.ids) - self.extra


def read_captions(run: Path, extra: str = "", languages: tuple[str, ...] = (LANGUAGE,)) -> Captions:
    """Read the captions of a run in these languages, then those of its table `extra` if the name is not empty. Raises
    FileNotFoundError for a missing table, ValueError for other columns, or a language that the run lacks.
    """
    columns = ["caption_id", "image_id", "split", "language", "origin", "text"]
    # `extra` may name any table, so its columns are checked, in its first shard, before it is read
    for shard in shards_of(run, extra)[:1] if extra else ():
        present = shard.read().column_names
        if lacking := [name for name in columns if name not in present]:
            raise ValueError(f"extra must be a table of captions, {extra} lacks: {', '.join(lacking)}")
    tables = [pa.concat_tables(read_table(run, name, columns)) for name in ("captions", extra) if name]
    known = tables[0]["language"].unique().to_pylist()
    if missing := [language for language in languages if language not in known]:
        spoken = ", ".join(sorted(known)) or "none"
        raise ValueError(f"languages must be of the captions in {run}, {spoken}, were: {', '.join(missing)}")
    # the captions of a language that the model does not speak are left out, and their images with them
    tables = [rows.filter(pc.is_in(rows["language"], pa.array(languages))) for rows in tables]
    rows = pa.concat_tables(table.replace_schema_metadata() for table in tables).combine_chunks()
    images = rows["image_id"].combine_chunks().dictionary_encode()
    return Captions(
        ids=rows["caption_id"].to_pylist(),
        texts=rows["text"].combine_chunks(),
        splits=rows["split"].combine_chunks(),
        image_ids=images.dictionary.to_pylist(),
        image=to_indices(images.indices),
        human=torch.from_numpy(pc.equal(rows["origin"], "human").to_numpy()),
        language=to_indices(pc.index_in(rows["language"], pa.array(languages))),
        languages=languages,
        extra=sum(len(table) for table in tables[1:]),
    )


class TrainAndValidation(NamedTuple):
    """The indices of the captions to train on, and of those to validate on, both (n,)."""

    train: Tensor
    validation: Tensor


def split_captions(
    captions: Captions, train: Sequence[str], validation: str, held_out: int | None, available: Tensor
) -> TrainAndValidation:
    """The captions to train on and those to validate on.

    If the run has no captions in the split for validation, images to train on are held out instead. They are chosen by
    a hash of their ids, so that they are the same for every seed, model and order of the run.

    Args:
        captions: of the run.
        train: the splits to train on.
        validation: the split to validate on.
        held_out: how many images are held out; None: a tenth, at most 500.
        available: (I,) bool, images with features; the captions of others are not used.

    Raises:
        ValueError: there are no captions to train on, or none to validate on.
    """
    train_rows = captions.of_splits(train)
    train_rows = train_rows[available[captions.image[train_rows]]]
    validation_rows = captions.for_metrics(captions.of_splits([validation]))
    validation_rows = validation_rows[available[captions.image[validation_rows]]]
    if not len(train_rows):
        known = ", ".join(repr(name or UNSPLIT) for name in pc.unique(captions.splits).to_pylist())
        raise ValueError(f"train_splits must have captions of images with features, have none: the splits are {known}")
    if not len(validation_rows):
        images = captions.image[train_rows].unique().tolist()
        # in the order of a random number that follows from the image's id alone
        images.sort(key=lambda image: record_rng(0, "validation", captions.image_ids[image]).random())
        number = min(HELD_OUT, -(-len(images) // 10)) if held_out is None else held_out
        if number >= len(images):
            rule = f"validation_images must be fewer than the {len(images):,} to train on"
            raise ValueError(f"{rule}, were: {number:,}")
        is_held_out = torch.isin(captions.image[train_rows], torch.tensor(images[:number], dtype=torch.long))
        validation_rows = captions.for_metrics(train_rows[is_held_out])
        train_rows = train_rows[~is_held_out]
    if not len(validation_rows):
        raise ValueError(f"validation needs captions: there is no split {validation!r} and validation_images is 0")
    return TrainAndValidation(train_rows, validation_rows)


# components


class QueryPhrase(NamedTuple):
    """An object, attributed object or triple, used as a query: its words as the tables of components spell them,
    ("dog",), ("black", "dog") or ("dog", "run on", "grass"), and its text as people write it: "dog running on grass".
    """

    words: tuple[str, ...]
    text: str


class ComponentLists(NamedTuple):
    """The components of one kind in n texts; those of text i are `words[offsets[i]:offsets[i + 1]]`: words (total, k),
    ids, k = 1 for objects, 2 for pairs, 3 for triples; offsets (n + 1,).
    """

    words: Tensor
    offsets: Tensor

    def known_components(self, texts: Tensor) -> RaggedRows:
        """The components of texts (B,) without unknown words: their rows in `words`, and the text of each by its
        position among the B.
        """
        entries = ragged_rows(self.offsets, texts)
        known = (self.words[entries.rows] != UNKNOWN_ID).all(1).cpu()
        return RaggedRows(entries.rows[known], entries.owner[known])

    def thinned(self, texts: Tensor, share: float, generator: Generator) -> ComponentLists:
        """These components, but a random share of those of texts (B,) is replaced by <unk>, which no model reads."""
        of_texts = torch.zeros(len(self.words), dtype=torch.bool)
        of_texts[ragged_rows(self.offsets, texts).rows] = True
        # numbers are drawn for all components, so that those left out do not depend on which texts are thinned
        is_left_out = of_texts & (torch.rand(len(self.words), generator=generator) < share)
        is_left_out = to_device(is_left_out, self.words.device)
        return ComponentLists(torch.where(is_left_out[:, None], UNKNOWN_ID, self.words), self.offsets)


class SceneGraphs(NamedTuple):
    """Components of texts by kind: objects (noun,), pairs (attribute, noun), triples (subject, relation, object)."""

    objects: ComponentLists
    pairs: ComponentLists
    triples: ComponentLists

    def to(self, device: torch.device) -> SceneGraphs:
        """These scene graphs with their words on a device; the offsets stay on the CPU."""
        return SceneGraphs(*(lists._replace(words=lists.words.to(device)) for lists in self))

    def thinned(self, texts: Tensor, share: float, seed: int) -> SceneGraphs:
        """These scene graphs without a random share of the pairs and of the triples of some texts (B,). What is left
        out becomes <unk>, which `known_components` skips, so that the offsets stay.
        """
        generator = Generator().manual_seed(seed)
        pairs = self.pairs.thinned(texts, share, generator)
        triples = self.triples.thinned(texts, share, generator)
        return SceneGraphs(self.objects, pairs, triples)


# ragged arrays: the entries of n rows one after the other, in a flat array; row i is offsets[i] … offsets[i + 1] - 1
#
#     rows       dog cat | (none) | hen
#     flat       dog cat            hen
#     sizes      2         0        1
#     offsets    0         2        2     3


def starts_of(sizes: Tensor) -> Tensor:
    """Where each of n consecutive groups begins, and the last one ends: (n + 1,); sizes: (n,)."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def places_in_groups(groups: Tensor) -> Tensor:
    """The place of each entry in its group, from 0: how many entries before it have the same group.

    Args:
        groups: (n,) the number of each entry's group.

    Returns:
        (n,); of the groups 7 3 7 7 3 it is 0 0 1 2 1.
    """
    numbers = pd.Series(groups.numpy())
    return torch.from_numpy(numbers.groupby(numbers).cumcount().to_numpy(np.int64, copy=True))


class RaggedRows(NamedTuple):
    """m entries of some rows (B,) of a ragged array. rows: (m,) the entries' indices in the flat array. owner: (m,) the
    row that each entry is in, as a position among the B, ascending.
    """

    rows: Tensor
    owner: Tensor


def ragged_rows(offsets: Tensor, rows: Tensor) -> RaggedRows:
    """All entries in rows (B,) of a ragged array. offsets: (n + 1,), where each row starts and the last one ends.

    In the array above, with offsets 0 2 2 3, the rows 2 and 0 have the entries 2 (hen), 0 and 1 (dog, cat); their
    owners are 0, 1 and 1.
    """
    starts = offsets[rows]
    sizes = offsets[rows + 1] - starts
    owner = torch.repeat_interleave(torch.arange(len(rows)), sizes)
    starts_in_result = sizes.cumsum(0) - sizes
    place_in_row = torch.arange(len(owner)) - starts_in_result[owner]
    return RaggedRows(starts[owner] + place_in_row, owner)


TABLES = ("components", "component_vocabulary", "component_exclusions")  # of a run with components
KINDS = ("noun", "attribute", "relation")  # of the words in component_vocabulary
# columns of `components`, and the words that make up an entry of each
PARTS = {"objects": ("object",), "attributes": ("attribute", "object"), "relations": ("subject", "relation", "object")}


def read_whole_table(run: Path, name: str) -> pa.Table:
    """Read all shards of a table that the stage components writes. Raises FileNotFoundError if there are none."""
    return pa.concat_tables(read_table(run, name)).combine_chunks()


def image_files(run: Path) -> dict[str, str]:
    """The file of each image of a run, by its id."""
    rows = read_whole_table(run, "captions")
    return dict(zip(rows["image_id"].to_pylist(), rows["image"].to_pylist(), strict=True))


def component_names(run: Path) -> list[str]:
    """The nouns, attributes and relations in a run's component_vocabulary. Raises FileNotFoundError without one."""
    vocabulary = read_whole_table(run, "component_vocabulary").select(["kind", "words"]).to_pylist()
    return [row["words"][0] for row in vocabulary if row["kind"] in KINDS]


def read_caption_rows(run: Path, name: str, caption_ids: Sequence[str]) -> pa.Table:
    """The rows of a table with one row per caption, for these captions and in their order. Raises FileNotFoundError for
    a missing table, ValueError for a caption without a row.
    """
    rows = read_whole_table(run, name)
    ids = pa.array(caption_ids, pa.string())
    positions = pc.index_in(ids, rows["caption_id"].combine_chunks())
    if positions.null_count:
        first = ids.filter(pc.is_null(positions))[0]
        raise ValueError(f"{name} of {run} must have a row for each caption, has none for: {first}")
    return rows.take(positions).combine_chunks()


def read_graphs(run: Path, captions: Captions, vocabulary: WordVocabulary, device: torch.device) -> SceneGraphs:
    """The scene graphs of captions, as word ids on `device`. Raises FileNotFoundError or ValueError without them."""
    return encode_components(read_caption_rows(run, "components", captions.ids), vocabulary, device)


def encode_components(components: pa.Table, vocabulary: WordVocabulary, device: torch.device) -> SceneGraphs:
    """The rows of a table `components` as scene graphs: word ids on `device`, offsets on the CPU."""
    lists = []
    for column, parts in PARTS.items():  # such as "attributes", whose entries have the parts attribute and object
        entries = components[column].combine_chunks()  # a list of entries for each text
        ids_of_parts = []  # of each part, the word ids (total,) of all entries
        for part in parts:
            names = entries.flatten().field(part).dictionary_encode()  # each distinct name is looked up once
            ids = np.array(component_ids(vocabulary, names.dictionary.to_pylist()), np.int64)
            ids_of_parts.append(ids[names.indices.to_numpy()])
        words = torch.from_numpy(np.stack(ids_of_parts, 1))
        sizes = torch.tensor(entries.value_lengths().to_numpy(zero_copy_only=False), dtype=torch.long)
        lists.append(ComponentLists(words.to(device), starts_of(sizes)))
    return SceneGraphs(*lists)


# the vocabulary of a UniVSE model has the names of components as words of their own, also those of several words
def component_ids(vocabulary: WordVocabulary, names: Iterable[str]) -> list[int]:
    """The word ids of names of components; for an unknown name ("soccer game") that of its last word, or of <unk>."""
    ids = vocabulary.ids
    return [ids.get(name, ids.get(name.rpartition(" ")[2], UNKNOWN_ID)) for name in names]


# word ids


# captions and negatives are one ragged array, so that a batch of both is a list of row numbers
class RunTexts(NamedTuple):
    """A run's captions followed by its negatives, n texts; text i is `tokens[offsets[i]:offsets[i + 1]]`.

    tokens: (total,) word ids, on the device, each by the vocabulary of its text's language. offsets: (n + 1,), on the
    CPU. captions: how many texts are captions. graphs: the components of the texts; None for models that do not use
    them. language: (n,) the index of each text's language among those of the model; None: all 0.
    """

    tokens: Tensor
    offsets: Tensor
    captions: int
    graphs: SceneGraphs | None = None
    language: Tensor | None = None


class PackedSentences(NamedTuple):
    """B sentences in the layout of torch's PackedSequence: all first words, then all second words, …; longest first.
    positions: (total,) of the words in the flat array of word ids. sizes: (T,) how many sentences have a word at each
    step. inverse: (B,) the position of each sentence in the packed order. All on the CPU.
    """

    positions: Tensor
    sizes: Tensor
    inverse: Tensor


def pack_sentences(offsets: Tensor, rows: Tensor, longest: int | None = None) -> PackedSentences:
    """The packed layout of some of n sentences, whose words stand one sentence after the other in a flat array.

    Args:
        offsets: (n + 1,) where each sentence starts in the array, and the last one ends.
        rows: (B,) the sentences to pack.
        longest: how many of a sentence's words are used, at most; None: all.
    """
    starts = offsets[rows]
    lengths = (offsets[rows + 1] - starts).clamp(0, longest)
    lengths, order = lengths.sort(descending=True, stable=True)  # (B,) longest first
    steps = torch.arange(int(lengths[0]))[:, None]  # (T, 1)
    # step by step: all sentences' first words, then the second words of those that have one
    present = steps < lengths[None, :]  # (T, B)
    positions = starts[order][None, :] + steps  # (T, B)
    position_in_order = order.argsort()  # (B,) the inverse permutation: where each sentence stands in `order`
    return PackedSentences(positions=positions[present], sizes=present.sum(1), inverse=position_in_order)


SINGULAR = ("a", "an", "one")  # quantities of one
COLUMNS = ("negative", "operator", "family", "draw", "replaced", "replacement", "concreteness", "row")  # of negatives
AT_ONCE = 1 << 16  # negatives encoded at a time
ENCODED = 2  # version of the encoded arrays in the cache

# the arrays with one entry per negative, see `Corpus`
OF_NEGATIVES = {
    "negative_caption": np.int32,
    "operator": np.int8,
    "family": np.int8,
    "draw": np.int32,
    "was_plural": np.bool_,
    "is_plural": np.bool_,
    "known": np.bool_,
    "concreteness": np.float32,
    "row": np.int64,
}

CPU = torch.device("cpu")
NO_FEATURES = ImageFeatures(torch.empty(0, 0), "", torch.empty(0, dtype=torch.bool))


@dataclass(frozen=True)
class Selection:
    """Which negatives of a run are read: of these families, operators and splits, all if empty.

    to_train: only negatives that a model may learn from. A text that several operators made of a caption is read once,
    and a negative that inserts a word unknown to the model is left out: <unk> would stand there in negatives only, and
    the model would learn that what it does not know is false.
    """

    families: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    to_train: bool = False


EVERY = Selection()


class UnknownWordCounts(NamedTuple):
    """How many negatives there are, and how many of them insert a word that a model does not know."""

    negatives: int
    unknown: int

    @property
    def share(self) -> float:
        """The share of those that insert an unknown word, in %."""
        return 100 * self.unknown / max(1, self.negatives)


KNOWN_WORDS = "for more of known words, build with --set lexicon=own, or train with a lower min_count"
TOO_MANY = 1.0  # a higher share of negatives that insert an unknown word, in %, is reported


def unknown_words_line(counts_by_operator: Mapping[str, UnknownWordCounts], then: str) -> str:
    """A line that says how many negatives insert a word that a model does not know, in all and by operator; empty if
    they are at most TOO_MANY % of all. then: what is done with them.

    >>> counts = {"noun": UnknownWordCounts(50, 10), "numeral": UnknownWordCounts(50, 0)}
    >>> unknown_words_line(counts, "they are left out")
    '10.0 % of the negatives insert a word that the model does not know (noun 20.0, numeral 0.0): they are left out'
    """
    counts = counts_by_operator.values()
    total = UnknownWordCounts(sum(count.negatives for count in counts), sum(count.unknown for count in counts))
    if total.share <= TOO_MANY:
        return ""
    shares = ", ".join(f"{name} {count.share:.1f}" for name, count in sorted(counts_by_operator.items()))
    return f"{total.share:.1f} % of the negatives insert a word that the model does not know ({shares}): {then}"


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The C captions of a run and M negatives, as word ids, and the features of its images.

    All tensors except the words of texts are on the CPU. Those of negatives are mapped from files: beside its words a
    negative takes up 33 bytes.

    Attributes:
        captions: of the run.
        vocabularies: by language, in the order of the captions' languages.
        texts: captions, then negatives, which are English.
        starts: (C + 1,) where the negatives of each caption begin, and the last ones end.
        negative_caption: (M,) the caption of each negative.
        operator, family: (M,) indices into `operators`, `families`.
        draw: (M,) the position, from 0, of a negative among those of its caption and operator.
        was_plural, is_plural: (M,) bool, for negatives of the family numeral, whether the quantity that is replaced,
            and the one that is inserted, is above one; False for others.
        known: (M,) bool, whether every word that the negative inserts is in the vocabulary.
        concreteness: (M,) float32, see `SampledNegatives`.
        row: (M,) the negative's number in the table negatives.
        unknown_words: by operator, how many of the selected negatives insert an unknown word.
        features: of the images.
    """

    captions: Captions
    vocabularies: Vocabularies
    texts: RunTexts
    starts: Tensor
    negative_caption: Tensor
    operator: Tensor
    family: Tensor
    draw: Tensor
    was_plural: Tensor
    is_plural: Tensor
    known: Tensor
    concreteness: Tensor
    row: Tensor
    operators: tuple[str, ...]
    families: tuple[str, ...]
    unknown_words: Mapping[str, UnknownWordCounts]
    features: ImageFeatures = NO_FEATURES

    @property
    def vocabulary(self) -> WordVocabulary:
        """The vocabulary of the first language."""
        return next(iter(self.vocabularies.values()))

    @property
    def device(self) -> torch.device:
        """The device that computes."""
        return self.texts.tokens.device

    def with_graphs(self, graphs: SceneGraphs | None) -> Self:
        """This corpus with the components of its texts."""
        return replace(self, texts=self.texts._replace(graphs=graphs))

    def made_by(self, operators: Sequence[str]) -> Tensor:
        """(M,) bool: True for negatives made by one of these operators."""
        numbers = [number for number, name in enumerate(self.operators) if name in operators]
        return torch.isin(self.operator, torch.tensor(numbers, dtype=self.operator.dtype))


def encode_run(
    run: Path,
    captions: Captions,
    words: Vocabularies,
    features: ImageFeatures = NO_FEATURES,
    device: torch.device = CPU,
    selection: Selection | None = EVERY,
) -> Corpus:
    """Encode the captions and negatives of a run, or map the arrays of an earlier call from the run's cache.

    Args:
        run: the folder of a run.
        captions: of the run, and of its table `extra` if that was read.
        words: the vocabulary of each language of the captions.
        features: of the images, if they are embedded.
        device: for the word ids; all else stays on the CPU.
        selection: the negatives that are read; None: none are.

    Returns:
        The corpus. M = 0 for a run without negatives, and for captions of which none are English.

    Raises:
        ValueError: a negative belongs to no caption, or the cache is damaged.
    """
    # negatives are English: captions in other languages alone have none
    if LANGUAGE not in words or not has_table(run, "negatives"):
        selection = None
    write = partial(_write_texts, run=run, captions=captions, words=words, selection=selection)
    stored = mapped_arrays(run, "texts-", _identity_of_texts(run, captions, words, selection), write)
    arrays = stored.tensors
    sizes = torch.bincount(arrays["negative_caption"], minlength=len(captions.ids))
    language = _language_of_texts(captions, words, len(arrays["row"]))
    return Corpus(
        captions=captions,
        vocabularies=words,
        texts=RunTexts(arrays["tokens"].to(device), arrays["offsets"], len(captions.ids), language=language),
        starts=starts_of(sizes),
        **{name: arrays[name] for name in OF_NEGATIVES},
        operators=tuple(stored.about["operators"]),
        families=tuple(stored.about["families"]),
        unknown_words={name: UnknownWordCounts(*counts) for name, counts in stored.about["inserting"].items()},
        features=features,
    )


def _identity_of_texts(run: Path, captions: Captions, words: Vocabularies, selection: Selection | None) -> JsonObject:
    """All that decides the arrays of `encode_run`: if an entry changes, they are written anew."""
    # the captions are hashed themselves: which ones there are also depends on the languages and the table `extra`
    hash_of_captions = hashlib.sha256()
    for caption_id, text in zip(captions.ids, captions.texts.to_pylist(), strict=True):
        hash_of_captions.update(f"{caption_id}\n{text}\n".encode())
    return {
        "version": ENCODED,
        "words": [vocabulary.sha256 for vocabulary in words.values()],
        "captions": hash_of_captions.hexdigest(),
        "negatives": selection and [hash_table(run, "negatives"), vars(selection)],
    }


def _language_of_texts(captions: Captions, words: Vocabularies, negatives: int) -> Tensor | None:
    """The `language` of RunTexts: of each caption, then English for each negative. None if there is only one."""
    if len(words) == 1:
        return None
    # without English there are no negatives to number
    english = captions.languages.index(LANGUAGE) if LANGUAGE in words else 0
    language = torch.full((len(captions.ids) + negatives,), english, dtype=torch.int8)
    language[: len(captions.ids)] = captions.language
    return language


def _write_texts(
    out: ArrayWriter, run: Path, captions: Captions, words: Vocabularies, selection: Selection | None
) -> JsonObject:
    """Write the arrays of `encode_run`, some negatives at a time, so that a large run needs little memory.

    Args:
        out: the file of arrays.
        run: the run.
        captions: of the run, whose texts come first.
        words: the vocabulary of each language.
        selection: which negatives; None: none.

    Returns:
        What `encode_run` needs beside the arrays, such as the names of the operators.
    """
    encoded_captions = _encode_captions(captions, words)
    out.append(tokens=encoded_captions.tokens, offsets=encoded_captions.offsets)
    out.append(**{name: np.empty(0, kind) for name, kind in OF_NEGATIVES.items()})  # also of a run without negatives
    end = int(encoded_captions.offsets[-1])  # where the words so far end, and those of the next text begin
    ids = pa.array(captions.ids, pa.string())
    codes: dict[str, dict[str, int]] = {"operator": {}, "family": {}}  # numbers of names, in order of first occurrence
    inserting: dict[str, list[int]] = {}  # by operator: how many negatives, and how many with an unknown word
    for shard in _selected_shards(run, selection):
        caption_numbers = _numbers_of_captions(run, shard, ids)
        owner = np.repeat(np.arange(len(shard.captions)), np.diff(shard.starts))  # (negatives,) by caption of the shard
        texts = shard.captions["text"].combine_chunks()
        for start in range(0, len(owner), AT_ONCE):
            rows = shard.negatives.slice(start, AT_ONCE).combine_chunks()
            # negatives are sorted by caption, so that those of a part belong to neighbouring captions
            owner_of_rows = owner[start : start + AT_ONCE]
            first = owner_of_rows[0]
            own_captions = texts.slice(first, owner_of_rows[-1] - first + 1)
            negatives = rows["negative"].combine_chunks()
            encoded, unknown = words[LANGUAGE].encode_negatives(negatives, own_captions, owner_of_rows - first)
            _count_unknown(inserting, rows["operator"].to_pylist(), unknown)
            # left out here, but counted above, so that users are told how many are lost
            kept = ~unknown if selection is not None and selection.to_train else np.ones(len(rows), np.bool_)
            sizes = np.diff(encoded.offsets)  # (rows,) how many words each negative has
            columns = _columns_to_keep(rows, codes)
            columns |= {"negative_caption": caption_numbers[owner_of_rows], "known": ~unknown}
            out.append(tokens=encoded.tokens[np.repeat(kept, sizes)], offsets=end + np.cumsum(sizes[kept]))
            out.append(**{name: columns[name][kept].astype(kind) for name, kind in OF_NEGATIVES.items()})
            end += int(sizes[kept].sum())
    return {"operators": [*codes["operator"]], "families": [*codes["family"]], "inserting": inserting}


def _count_unknown(inserting: dict[str, list[int]], operators: Sequence[str], unknown: np.ndarray) -> None:
    """Count negatives by operator, and those with an unknown word, in `inserting`, see `_write_texts`.

    Args:
        inserting: the counts so far, which are raised.
        operators: (n,) of these negatives.
        unknown: (n,) bool, whether each inserts a word that the model does not know.
    """
    for operator, inserts_unknown in zip(operators, unknown.tolist(), strict=True):
        counts = inserting.setdefault(operator, [0, 0])
        counts[0] += 1
        counts[1] += inserts_unknown


def _numbers_of_captions(run: Path, shard: CaptionsWithNegatives, ids: pa.Array) -> np.ndarray:
    """The index among `ids` of each caption of a shard, (n,). One that is not there, such as a caption in another
    language, gets the index 0, which nothing reads. Raises ValueError if such a caption has negatives.
    """
    numbers = pc.index_in(shard.captions["caption_id"].combine_chunks(), ids)
    is_lacking = numbers.is_null().to_numpy(zero_copy_only=False) & (np.diff(shard.starts) > 0)
    if is_lacking.any():
        first = shard.captions["caption_id"][int(is_lacking.argmax())]
        raise ValueError(f"negatives of {run} must belong to its captions, one belongs to: {first}")
    return pc.fill_null(numbers, 0).to_numpy()


def _selected_shards(run: Path, selection: Selection | None) -> Iterator[CaptionsWithNegatives]:
    """The captions and negatives of each shard that are selected."""
    if selection is None:
        return iter(())
    return captions_with_negatives(
        run,
        selection.operators,
        selection.splits,
        families=selection.families,
        distinct=selection.to_train,
        of_captions=("caption_id", "text"),
        of_negatives=COLUMNS,
    )


def _encode_captions(captions: Captions, words: Vocabularies) -> EncodedTexts:
    """All captions, each by the vocabulary of its language, in their order.

    words: by language, in the order of `captions.languages`, by which `captions.language` numbers them.
    """
    if len(words) == 1:
        (vocabulary,) = words.values()
        return vocabulary.encode(captions.texts)
    encoded = []
    for number, vocabulary in enumerate(words.values()):
        in_language = pa.array((captions.language == number).numpy())
        encoded.append(vocabulary.encode(captions.texts.filter(in_language)))
    # First the texts of all languages one after the other, then back in the order of the captions.
    tokens = np.concatenate([texts.tokens for texts in encoded])
    sizes = torch.from_numpy(np.concatenate([np.diff(texts.offsets) for texts in encoded]))  # (C,) tokens of each text
    by_language = captions.language.argsort(stable=True)  # (C,) the captions in the order in which they were encoded
    place = by_language.argsort()  # (C,) the inverse: where each caption stands in that order
    token_numbers = ragged_rows(starts_of(sizes), place).rows  # of the first caption's tokens, of the second's, …
    return EncodedTexts(tokens[token_numbers.numpy()], starts_of(sizes[place]).numpy())


def _columns_to_keep(rows: pa.Table, codes: dict[str, dict[str, int]]) -> dict[str, np.ndarray]:
    """What is kept of some negatives, by name, see OF_NEGATIVES.

    Args:
        rows: the negatives.
        codes: numbers of the names of operators and of families; new names are added to it.
    """
    columns = {name: rows[name].to_numpy() for name in ("draw", "row")}
    columns["concreteness"] = concreteness(rows).numpy()
    for column, codes_of_names in codes.items():
        # a name that is new gets the next number
        numbers = [codes_of_names.setdefault(name, len(codes_of_names)) for name in rows[column].to_pylist()]
        columns[column] = np.array(numbers, np.int8)
    is_numeral = pc.equal(rows["family"], "numeral")
    singular = pa.array(SINGULAR)
    for flag, name in (("was_plural", "replaced"), ("is_plural", "replacement")):
        # a numeral is plural unless it is in SINGULAR; other words have no number here
        columns[flag] = pc.and_(is_numeral, pc.invert(pc.is_in(rows[name], singular))).to_numpy()
    return columns


def to_indices(column: pa.Array | pa.ChunkedArray) -> Tensor:
    """(n,) whole numbers of a column, int64."""
    return torch.from_numpy(column.to_numpy().astype(np.int64))


def concreteness(rows: pa.Table) -> Tensor:
    """(n,) the concreteness of negatives, float32; 0 for null."""
    return torch.from_numpy(np.array(pc.fill_null(rows["concreteness"].cast(pa.float32()), 0).to_numpy()))
