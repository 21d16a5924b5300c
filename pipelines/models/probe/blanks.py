"""Fill in the blank: which word stands here, given the rest of the caption and the image? (VSE-C, Table 7)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ....augment.language.semantic_classes import prepositions
from ..data import pack_sentences, ragged_rows, read_caption_rows, starts_of
from ..device import rows_to_device, to_device
from ..figures import markdown_table
from ..fit import TrainingStep, fit
from ..vocabulary import SPECIALS, UNKNOWN_ID, WordVocabulary, build_vocabulary, word_spans
from .task import FILE, NOUNS, Task, word_tables

KINDS = ("noun", "preposition")
TOP = (1, 10)
STATES = 512
EPOCHS = 10
BATCH_SIZE = 128
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-4  # of VSE-C
HIDDEN = 1024  # units of the hidden layer
AT_ONCE = 256  # captions tested at a time


class Blanks(NamedTuple):
    """The n captions of some images as word ids, and the m words of theirs that may be blanked. All on the CPU.

    tokens: (total,), offsets: (n + 1,), as in EncodedTexts. image: (n,) the row of each caption's features. starts: (n
    + 1,); the blanks of caption c are starts[c] to starts[c + 1]. position: (m,) the position of each blank in its
    caption, 0 being <start>. kind: (m,) an index into KINDS.
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


def read_blanks(run: Path, ids: Sequence[str], image: Tensor, vocabulary: WordVocabulary, known: Tensor) -> Blanks:
    """The blanks of captions: heads of noun phrases, and prepositions that are in Table 8. ids: caption_ids. image:
    (n,) the row of the features of each. known: (V,) bool, the words that may be blanked, if they are in the
    vocabulary. Captions without a blank are left out. Raises FileNotFoundError for a run without parses.
    """
    parses = read_caption_rows(run, "parses", ids)
    sets = prepositions().sets
    tokens, offsets = map(torch.from_numpy, vocabulary.encode(parses["text"]))
    found: list[tuple[int, int, int]] = []  # caption, position and kind of each blank
    columns = (parses[name].to_pylist() for name in ("text", "tokens", "chunks"))
    for row, (text, parsed, chunks) in enumerate(zip(*columns, strict=True)):
        positions = {span: n for n, span in enumerate(word_spans(text), 1)}
        heads = {chunk["root"] for chunk in chunks}
        for n, token in enumerate(parsed):
            span = token["start"], token["end"]
            word = text[span[0] : span[1]]
            noun = n in heads and token["tag"] in NOUNS and word.isalpha()
            if span in positions and (noun or (token["pos"] == "ADP" and word.lower() in sets)):
                found.append((row, positions[span], 0 if noun else 1))
    caption, position, kind = torch.tensor(sorted(found)).T
    id = tokens[offsets[caption] + position].long()
    good = known[id] & (id != UNKNOWN_ID)
    captions, owner = caption[good].unique(return_inverse=True)
    starts = starts_of(torch.bincount(owner, minlength=len(captions)))
    kept, _ = ragged_rows(offsets, captions)
    ends = starts_of(offsets.diff()[captions])
    return Blanks(tokens[kept], ends, image[captions], starts, position[good], kind[good])


class BlankFiller(nn.Module):
    """Predicts the vector of a blanked word from the words before it, those after it, and the image.

    A GRU reads the words before the blank, another those after it from the end; their last states and the features of
    the image go through a layer of `hidden` rectified units to a vector as long as a word's. words: (V, e), not
    trained. features: how many numbers an image has; 0: it is not read. states: units of each GRU.
    """

    words: Tensor

    def __init__(self, words: Tensor, features: int, states: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("words", words)
        self.features = features
        self.gru = nn.GRU(words.shape[1], states, bidirectional=True)
        self.hidden = nn.Linear(2 * states + features, hidden)
        self.out = nn.Linear(hidden, words.shape[1])

    def forward(self, blanks: Blanks, captions: Tensor, which: Tensor, owner: Tensor, features: Tensor) -> Tensor:
        """Vectors (b, e) for the blanks `which` (b,), of captions (B,); owner: (b,) the index of each one's caption.
        features: (I, D) of all images, on the CPU or on the device of the weights. The state of either GRU beside the
        blank does not depend on the blank itself.
        """
        packed = pack_sentences(blanks.offsets, captions)
        device = self.words.device
        read = self.words[to_device(blanks.tokens[packed.positions].long(), device)]
        states, _ = self.gru(PackedSequence(read, packed.sizes))
        padded = pad_packed_sequence(states)[0][:, to_device(packed.inverse, device)]
        before, after = padded.chunk(2, 2)
        at, of = (to_device(part, device) for part in (blanks.position[which], owner))
        parts = [before[at - 1, of], after[at + 1, of]]
        if self.features:
            parts.append(rows_to_device(features, blanks.image[captions[owner]], device))
        return self.out(torch.relu(self.hidden(torch.cat(parts, 1))))


def train_filler(
    words: Tensor,
    features: Tensor,
    blanks: Blanks,
    seed: int = 0,
    epochs: int = EPOCHS,
    states: int = STATES,
    image: bool = True,
) -> BlankFiller:
    """A model trained to predict the vectors (V, e) of the blanks' words, by 1 - cosine, on the device of these
    vectors; features: (I, D), there or on the CPU.

    As in VSE-C, whose paper does not say the size of the hidden layer, each caption has one random blank in each epoch.
    states: units of each of the two GRUs. image: whether the image is read, too. seed: of the initial weights and of
    what is drawn.
    """
    generator = Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        filler = BlankFiller(words, features.shape[1] * image, states, HIDDEN).to(words.device)
    optimizer = torch.optim.AdamW(filler.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    counts = blanks.starts.diff()

    def step(captions: Tensor, epoch: int) -> TrainingStep:
        drawn = torch.rand(len(captions), generator=generator) * counts[captions]
        which = blanks.starts[captions] + drawn.long()
        found = filler(blanks, captions, which, torch.arange(len(captions)), features)
        right = words[to_device(blanks.words[which], words.device)]
        return TrainingStep(1 - functional.cosine_similarity(found, right, dim=1).mean())

    def batches(epoch: int) -> Sequence[Tensor]:
        return torch.randperm(len(counts), generator=generator).split(BATCH_SIZE)

    fit({"filler": filler}, {"optimizer": optimizer}, batches, step, epochs)
    return filler


def blank_ranks(filler: BlankFiller, features: Tensor, blanks: Blanks, choices: Tensor) -> Tensor:
    """The rank (m,), from 1, of each blank's word among `choices` (k,), word ids, by cosine with the prediction; on the
    CPU. A word as near as the right one counts as nearer.
    """
    device = filler.words.device
    vectors = functional.normalize(filler.words[to_device(choices, device)], dim=1)
    place = torch.full((len(filler.words),), -1)
    place[choices] = torch.arange(len(choices))
    ranks = []
    with torch.inference_mode():
        for captions in torch.arange(len(blanks.starts) - 1).split(AT_ONCE):
            which = torch.arange(int(blanks.starts[captions[0]]), int(blanks.starts[captions[-1] + 1]))
            owner = blanks.caption[which] - captions[0]
            found = functional.normalize(filler(blanks, captions, which, owner, features), dim=1)
            right = to_device(place[blanks.words[which]], device)
            scores = found @ vectors.T
            own = scores.gather(1, right[:, None])
            scores.scatter_(1, right[:, None], -torch.inf)
            ranks.append(1 + (scores >= own).sum(1))
    return torch.cat(ranks).cpu()


def frequency_ranks(train: Blanks, test: Blanks) -> Tensor:
    """The rank (m,), from 1, of each test blank's word by how often train blanks of its kind hold it. A tie counts
    against it. A baseline that reads neither caption nor image.
    """
    size = int(max(train.words.max(), test.words.max())) + 1
    ranks = []
    for kind in range(len(KINDS)):
        counts = torch.bincount(train.words[train.kind == kind], minlength=size)
        ranks.append((counts[None, :] >= counts[:, None]).sum(1))
    return torch.stack(ranks)[test.kind, test.words]


def recalls(ranks: Tensor, kind: Tensor) -> dict[str, dict[str, float]]:
    """R@1 and R@10 in % of blanks with these ranks (m,): nouns, prepositions, both; kind: (m,) indices into KINDS."""
    chosen = {**{name: kind == n for n, name in enumerate(KINDS)}, "both": torch.ones_like(kind, dtype=torch.bool)}
    ranked = {name: ranks[which].double() for name, which in chosen.items() if which.any()}
    return {name: {f"R@{k}": 100 * (its <= k).double().mean().item() for k in TOP} for name, its in ranked.items()}


def fill_blanks(task: Task) -> tuple[dict[str, Any], str]:
    """VSE-C's Table 7, as metrics and Markdown: how well words are found with each table of vectors, or no image."""
    config = task.config
    captions = task.captions
    features = task.features
    vocabulary = build_vocabulary((captions.texts[int(n)].as_py() for n in task.train), config.min_count or 4)
    tables = word_tables(config.vectors, config.models, vocabulary.words[len(SPECIALS) :], config.seed)
    known = torch.cat([torch.zeros(len(SPECIALS), dtype=torch.bool), ~tables[FILE].isnan().any(1)])
    choices = known.nonzero()[:, 0]
    texts = ((rows, [captions.ids[n] for n in rows.tolist()]) for rows in (task.train, task.test))
    seen, tested = (read_blanks(task.run, ids, captions.image[rows], vocabulary, known) for rows, ids in texts)
    epochs = config.epochs or EPOCHS
    states = config.hidden or STATES
    found = {"most frequent words": recalls(frequency_ranks(seen, tested), tested.kind)}
    for name, table in {f"{FILE}, without the image": tables[FILE], **tables}.items():
        words = torch.cat([torch.zeros(len(SPECIALS), table.shape[1]), table.nan_to_num()]).to(task.device)
        task.say(f"{name}: {words.shape[1]} numbers a word")
        image = not name.endswith("without the image")
        filler = train_filler(words, features, seen, config.seed, epochs, states, image=image)
        found[name] = recalls(blank_ranks(filler, features, tested, choices), tested.kind)
    counts = {name: int((tested.kind == n).sum()) for n, name in enumerate(KINDS)}
    metrics = {"words": len(choices), "train captions": len(seen.image), "blanks": counts}
    metrics |= {"epochs": epochs, "states": states, "rows": found}
    blanks = ", ".join(f"{number:,} of a {name}" for name, number in counts.items())
    about = f"{len(seen.image):,} captions to train on in {epochs} epochs, {states} units per GRU"
    head = f"{about}; blanks: {blanks}; {len(choices):,} words to choose from."
    columns = [(name, f"R@{k}") for name in (*KINDS, "both") for k in TOP]
    rows = []
    for name, its in found.items():
        rows.append([name, *(f"{its[kind][k]:.1f}" if kind in its else "" for kind, k in columns)])
    return metrics, f"{head}\n\n{markdown_table(['fill in the blank', *(' '.join(pair) for pair in columns)], rows)}"
