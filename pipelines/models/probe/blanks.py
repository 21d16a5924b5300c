"""Fill in the blank: which word stands here, given the rest of the caption and the image? (VSE-C, Table 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ....augment.language.semantic_classes import preposition_table
from ..data import pack_sentences, ragged_rows, read_caption_rows, starts_of
from ..device import rows_to_device, to_device
from ..figures import markdown_table
from ..fit import TrainingStep, fit
from ..vocabulary import SPECIALS, UNKNOWN_ID, WordVocabulary, build_vocabulary, word_spans
from .task import FILE, NOUNS, Task, TaskResult, word_tables

KINDS = ("noun", "preposition")
TOP = (1, 10)  # the k of the R@k that are reported
AT_ONCE = 256  # captions tested at a time


class FillerTraining(NamedTuple):
    """The size of a BlankFiller, and how it is trained.

    states: units of each of its GRUs. hidden: units of its hidden layer; VSE-C's paper does not say how many.
    weight_decay: that of VSE-C. image: whether it reads the image, too.
    """

    epochs: int = 10
    states: int = 512
    hidden: int = 1024
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    image: bool = True


TRAINING = FillerTraining()


class Blanks(NamedTuple):
    """n captions as word ids, and m blanks, the words that may be blanked, caption by caption. All on the CPU.

    tokens: (total,), offsets: (n + 1,), as in EncodedTexts. image: (n,) the row of each caption's features. starts: (n
    + 1,); the blanks of caption c are starts[c] to starts[c + 1] (exclusive). position: (m,) the position of each blank
    in its caption, 0 being <start>. kind: (m,) the kind of each, an index into KINDS.
    """

    tokens: Tensor
    offsets: Tensor
    image: Tensor
    starts: Tensor
    position: Tensor
    kind: Tensor

    @property
    def caption(self) -> Tensor:
        """(m,) the caption of each blank."""
        return torch.repeat_interleave(torch.arange(len(self.starts) - 1), self.starts.diff())

    @property
    def words(self) -> Tensor:
        """(m,) the ids of the blanked words."""
        return self.tokens[self.offsets[self.caption] + self.position].long()


class Blank(NamedTuple):
    """A word that may be blanked: the row of its caption, its position there, and the index of its kind in KINDS."""

    caption: int
    position: int
    kind: int


def read_blanks(run: Path, ids: Sequence[str], image: Tensor, vocabulary: WordVocabulary, known: Tensor) -> Blanks:
    """The blanks of captions: heads of noun phrases, and prepositions that are in Table 8 of VSE-C.

    Captions without a blank are left out. Raises FileNotFoundError for a run without parses.

    Args:
        run: the folder of a run with parses.
        ids: n caption_ids.
        image: (n,) the row of each caption's features.
        vocabulary: V words, by whose ids the captions are encoded.
        known: (V,) bool, the words that may be blanked.
    """
    parses = read_caption_rows(run, "parses", ids)
    table_8 = preposition_table().sets
    encoded = vocabulary.encode(parses["text"])
    tokens = torch.from_numpy(encoded.tokens)
    offsets = torch.from_numpy(encoded.offsets)
    candidates: list[Blank] = []
    columns = (parses[name].to_pylist() for name in ("text", "tokens", "chunks"))
    for row, (text, parsed, chunks) in enumerate(zip(*columns, strict=True)):
        # The parse and the vocabulary cut words differently: a blank is what both have as one word.
        # Positions count from 1, behind the start token of the encoded caption.
        position_of_span = {span: position for position, span in enumerate(word_spans(text), 1)}
        heads = {chunk["root"] for chunk in chunks}
        for number, token in enumerate(parsed):
            position = position_of_span.get((token["start"], token["end"]))
            if position is None:
                continue
            word = text[token["start"] : token["end"]]
            if number in heads and token["tag"] in NOUNS and word.isalpha():
                candidates.append(Blank(row, position, KINDS.index("noun")))
            elif token["pos"] == "ADP" and word.lower() in table_8:
                candidates.append(Blank(row, position, KINDS.index("preposition")))
    caption, position, kind = torch.tensor(sorted(candidates)).T
    word_id = tokens[offsets[caption] + position].long()
    # A word outside the vocabulary is no choice, so its blank could not be filled.
    usable = known[word_id] & (word_id != UNKNOWN_ID)
    # the captions that are left, and the position among them of the caption of each usable blank
    captions, caption_of_blank = caption[usable].unique(return_inverse=True)
    kept_tokens, _ = ragged_rows(offsets, captions)
    return Blanks(
        tokens=tokens[kept_tokens],
        offsets=starts_of(offsets.diff()[captions]),
        image=image[captions],
        starts=starts_of(torch.bincount(caption_of_blank, minlength=len(captions))),
        position=position[usable],
        kind=kind[usable],
    )


class BlankFiller(nn.Module):
    """Predicts the vector of a blanked word from the words before it, those after it, and the image.

    A GRU reads the words before the blank, another those after it from the end; their last states and the features of
    the image go through a layer of `hidden` rectified units to a vector as long as a word's. words: (V, e), not
    trained. features: how many numbers an image has; 0: it is not read. states: units of each GRU.
    """

    words: Tensor

    def __init__(self, words: Tensor, features: int, states: int, hidden: int) -> None:
        """Make the layers; words: (V, e) vectors, a buffer, as they are not trained."""
        super().__init__()
        self.register_buffer("words", words)
        self.features = features
        self.gru = nn.GRU(words.shape[1], states, bidirectional=True)
        self.hidden = nn.Linear(2 * states + features, hidden)
        self.out = nn.Linear(hidden, words.shape[1])

    def forward(self, blanks: Blanks, captions: Tensor, which: Tensor, owner: Tensor, features: Tensor) -> Tensor:
        """Vectors (b, e) for blanks. The state of either GRU beside a blank does not depend on the blank itself.

        Args:
            blanks: all of them.
            captions: (B,) those that are read.
            which: (b,) the blanks that are filled.
            owner: (b,) the caption of each of these, as an index into `captions`.
            features: (I, D) of all images, on the CPU or on the device of the weights.
        """
        packed = pack_sentences(blanks.offsets, captions)
        device = self.words.device
        vectors = self.words[to_device(blanks.tokens[packed.positions].long(), device)]
        states, _ = self.gru(PackedSequence(vectors, packed.sizes))
        padded = pad_packed_sequence(states)[0][:, to_device(packed.inverse, device)]  # (T, B, 2 * states)
        # At each position: the states after the words up to it, and after the words from the end back to it
        forwards, backwards = padded.chunk(2, 2)
        position = to_device(blanks.position[which], device)
        row = to_device(owner, device)
        inputs = [forwards[position - 1, row], backwards[position + 1, row]]
        if self.features:
            inputs.append(rows_to_device(features, blanks.image[captions[owner]], device))
        return self.out(torch.relu(self.hidden(torch.cat(inputs, 1))))


def train_filler(
    words: Tensor, features: Tensor, blanks: Blanks, seed: int = 0, training: FillerTraining = TRAINING
) -> BlankFiller:
    """A model trained to predict the vectors of the blanks' words, by 1 - cosine.

    As in VSE-C, each caption has one random blank in each epoch.

    Args:
        words: (V, e) vectors, on the device that computes.
        features: (I, D), there or on the CPU.
        blanks: to train on.
        seed: of the initial weights and of what is drawn.
        training: the size of the model, how long it is trained, and how fast.
    """
    generator = Generator().manual_seed(seed)
    image_numbers = features.shape[1] if training.image else 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        filler = BlankFiller(words, image_numbers, training.states, training.hidden).to(words.device)
    optimizer = torch.optim.AdamW(filler.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
    blanks_of_caption = blanks.starts.diff()  # how many each has

    def step(captions: Tensor, epoch: int) -> TrainingStep:
        """The loss of filling a random blank of each caption; captions: their indices in `blanks`, (B,)."""
        # a random one of each caption's blanks: its number among them, then among all blanks
        number = (torch.rand(len(captions), generator=generator) * blanks_of_caption[captions]).long()
        which = blanks.starts[captions] + number
        owner = torch.arange(len(captions))  # blank i is one of captions[i]
        predicted = filler(blanks, captions, which, owner, features)
        right = words[to_device(blanks.words[which], words.device)]
        return TrainingStep(1 - functional.cosine_similarity(predicted, right, dim=1).mean())

    def batches(epoch: int) -> Sequence[Tensor]:
        """All captions in random order, in parts."""
        return torch.randperm(len(blanks_of_caption), generator=generator).split(training.batch_size)

    fit({"filler": filler}, {"optimizer": optimizer}, batches, step, training.epochs)
    return filler


def blank_ranks(filler: BlankFiller, features: Tensor, blanks: Blanks, choices: Tensor) -> Tensor:
    """The rank (m,), from 1, of each blank's word by cosine with the prediction; on the CPU. A word as near as the
    right one counts as nearer.

    Args:
        filler: the model.
        features: (I, D) of all images.
        blanks: m of them.
        choices: (k,) the ids of the words that are ranked.
    """
    device = filler.words.device
    choice_vectors = functional.normalize(filler.words[to_device(choices, device)], dim=1)
    index_in_choices = torch.full((len(filler.words),), -1)
    index_in_choices[choices] = torch.arange(len(choices))
    ranks = []
    with torch.inference_mode():
        for captions in torch.arange(len(blanks.starts) - 1).split(AT_ONCE):
            which = torch.arange(int(blanks.starts[captions[0]]), int(blanks.starts[captions[-1] + 1]))
            owner = blanks.caption[which] - captions[0]
            predicted = functional.normalize(filler(blanks, captions, which, owner, features), dim=1)
            right = to_device(index_in_choices[blanks.words[which]], device)[:, None]
            scores = predicted @ choice_vectors.T
            right_scores = scores.gather(1, right)
            scores.scatter_(1, right, -torch.inf)  # so that the right word does not count as nearer than itself
            ranks.append(1 + (scores >= right_scores).sum(1))
    return torch.cat(ranks).cpu()


def frequency_ranks(train: Blanks, test: Blanks) -> Tensor:
    """The rank (m,), from 1, of each test blank's word by how often train blanks of its kind hold it. A tie counts
    against it. A baseline that reads neither caption nor image.
    """
    vocabulary_size = int(max(train.words.max(), test.words.max())) + 1
    ranks = []  # of each kind of blank, the rank (V,) of every word
    for kind in range(len(KINDS)):
        counts = torch.bincount(train.words[train.kind == kind], minlength=vocabulary_size)
        # for each word, how many words (itself included) are at least as frequent
        ranks.append((counts[None, :] >= counts[:, None]).sum(1))
    return torch.stack(ranks)[test.kind, test.words]


Recalls = dict[str, dict[str, float]]  # R@1 and R@10 in %, by kind of blank


def recalls(ranks: Tensor, kind: Tensor) -> Recalls:
    """R@1 and R@10 in % of blanks with these ranks (m,): nouns, prepositions, both; kind: (m,) indices into KINDS. A
    kind without blanks is left out.
    """
    ranks_by_kind = {name: ranks[kind == number] for number, name in enumerate(KINDS)} | {"both": ranks}
    recalls_by_kind = {}
    for name, of_kind in ranks_by_kind.items():
        if len(of_kind):
            recalls_by_kind[name] = {f"R@{k}": 100 * (of_kind <= k).double().mean().item() for k in TOP}
    return recalls_by_kind


def fill_blanks(task: Task) -> TaskResult:
    """VSE-C's Table 7: how well blanked words are found with each table of word vectors, or without the image."""
    config = task.config
    captions = task.captions
    train_texts = captions.texts.take(pa.array(task.train.numpy())).to_pylist()
    vocabulary = build_vocabulary(train_texts, config.min_count or 4)
    tables = word_tables(config.vectors, config.models, vocabulary.words[len(SPECIALS) :], config.seed)
    # The vocabulary begins with the special words, which the tables lack.
    known = torch.cat([torch.zeros(len(SPECIALS), dtype=torch.bool), ~tables[FILE].isnan().any(1)])
    choices = known.nonzero()[:, 0]

    def blanks_of(rows: Tensor) -> Blanks:
        """The blanks of captions `rows` (n,) whose words the file has."""
        ids = [captions.ids[row] for row in rows.tolist()]
        return read_blanks(task.run, ids, captions.image[rows], vocabulary, known)

    train = blanks_of(task.train)
    test = blanks_of(task.test)
    training = FillerTraining(epochs=config.epochs or TRAINING.epochs, states=config.hidden or TRAINING.states)
    without_image = f"{FILE}, without the image"
    results = {"most frequent words": recalls(frequency_ranks(train, test), test.kind)}
    for name, table in {without_image: tables[FILE], **tables}.items():
        # Words that the file lacks are read as zeros, as special words are; they are neither blanked nor choices.
        words = torch.cat([torch.zeros(len(SPECIALS), table.shape[1]), table.nan_to_num()]).to(task.device)
        task.say(f"{name}: {words.shape[1]} numbers a word")
        of_row = training._replace(image=name != without_image)
        filler = train_filler(words, task.features, train, config.seed, of_row)
        results[name] = recalls(blank_ranks(filler, task.features, test, choices), test.kind)

    counts = {name: int((test.kind == number).sum()) for number, name in enumerate(KINDS)}
    # Also written as JSON, so that the papers' tables can be made of it.
    metrics: dict[str, object] = {
        "words": len(choices),
        "train captions": len(train.image),
        "blanks": counts,
        "epochs": training.epochs,
        "states": training.states,
        "rows": results,
    }
    shown_counts = ", ".join(f"{number:,} of a {name}" for name, number in counts.items())
    about = (
        f"{len(train.image):,} captions to train on in {training.epochs} epochs, {training.states} units per GRU; "
        f"blanks: {shown_counts}; {len(choices):,} words to choose from."
    )
    return TaskResult(metrics, f"{about}\n\n{_table_of_recalls(results)}")


def _table_of_recalls(results: Mapping[str, Recalls]) -> str:
    """A row for each table of vectors, by name, with R@1 and R@10 of each kind of blank, as Markdown."""
    columns = [(kind, f"R@{k}") for kind in (*KINDS, "both") for k in TOP]
    rows = []
    for name, result in results.items():
        rows.append([name, *(f"{result[kind][top]:.1f}" if kind in result else "" for kind, top in columns)])
    return markdown_table(["fill in the blank", *(f"{kind} {top}" for kind, top in columns)], rows)
