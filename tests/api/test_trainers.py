"""Trainers of others on batches of `Negatives`, and on the tars of a WebDataset with negatives joined by key: two
processes (gloo), of two workers each, train as one would on the batches of both.
"""

import io
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize
from torch.utils.data import DataLoader

from negcap import Negatives, NegativesByKey, NegativesLoss, train_openclip, train_transformers
from negcap.pipelines.api.training import _Epochs
from tests.pipelines.publish.fixtures import rows, write_images, write_run
from tests.pipelines.score import models

TARS, BATCH, STEPS, NEGATIVES, LETTERS = 8, 4, 3, 4, 128


@dataclass(frozen=True)
class Trainer:
    """What makes tensors of an image and of texts, a model, and what trains it: on batches of this process, so many
    steps in an epoch, so many epochs.
    """

    transform: Callable[[Image.Image], torch.Tensor]
    tokenize: Callable[[list[str]], torch.Tensor]
    model: torch.nn.Module
    train: Callable[[Any, int | None, int], object]


class Recorded:
    """The first STEPS batches of a loader, which are kept as they are read."""

    def __init__(self, loader: Iterable[dict[str, Any]]) -> None:
        self.loader, self.batches = loader, list[dict[str, Any]]()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in islice(self.loader, STEPS):
            self.batches.append(batch)
            yield batch


def distributed(model: torch.nn.Module) -> torch.nn.Module:
    there = torch.distributed.is_initialized()
    return torch.nn.parallel.DistributedDataParallel(model) if there else model


class TinyClip(torch.nn.Module):
    """A linear map of 4 x 4 pixels, and the mean of vectors of letters."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels, self.letters = torch.nn.Linear(48, 8), torch.nn.EmbeddingBag(LETTERS, 8)

    def forward(self, image: torch.Tensor, texts: torch.Tensor) -> list[torch.Tensor]:
        return [normalize(vectors, dim=1) for vectors in (self.pixels(image.flatten(1)), self.letters(texts))]


def own_loop(folder: Path) -> Trainer:
    """The step of the documentation."""
    model = TinyClip()

    def train(loader: Recorded, steps: int | None, epochs: int) -> None:
        parallel, optimizer, loss = distributed(model), torch.optim.SGD(model.parameters(), lr=0.5), NegativesLoss()
        for batch in loader:
            optimizer.zero_grad()
            texts = torch.cat([batch["caption"], batch["negatives"].flatten(0, 1)])
            loss(*parallel(batch["image"], texts), 5.0, batch["mask"]).backward()
            optimizer.step()

    def pixels(image: Image.Image) -> torch.Tensor:
        return torch.from_numpy(np.array(image.resize((4, 4)))).float() / 255

    def letters(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[ord(letter) for letter in text.ljust(99)] for text in texts])

    return Trainer(pixels, letters, model, train)


def open_clips(folder: Path) -> Trainer:
    """OpenCLIP's `train_one_epoch`."""
    import open_clip

    (folder / "open_clip").mkdir()
    models.open_clip(folder / "open_clip")
    model = open_clip.create_model("tiny", output_dict=True)

    def train(loader: Any, steps: int | None, epochs: int) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        train_openclip(distributed(model), loader, optimizer, steps=steps, epochs=epochs, log_every_n_steps=1)

    return Trainer(open_clip.image_transform(16, is_train=False), open_clip.get_tokenizer("tiny"), model, train)


def transformers(folder: Path) -> Trainer:
    """The `Trainer` of transformers."""
    import transformers

    from negcap.pipelines.models.clip.pretrained import read_hugging_face

    model, processor, tokenizer = read_hugging_face(models.clip(folder / "clip"))
    settings = {"padding": "max_length", "max_length": 16, "truncation": True, "return_tensors": "pt"}

    def train(loader: Any, steps: int | None, epochs: int) -> None:
        arguments = transformers.TrainingArguments(
            str(folder / "out"), num_train_epochs=epochs, optim="sgd", learning_rate=0.5, lr_scheduler_type="constant",
            report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no",
            ddp_backend="gloo" if torch.distributed.is_initialized() else None,
        )  # fmt: skip
        train_transformers(model, loader, arguments, steps=steps, padding=tokenizer.pad_token_id)

    return Trainer(
        lambda image: processor(images=image, return_tensors="pt")["pixel_values"][0],
        lambda texts: tokenizer(texts, **settings).input_ids,
        model,
        train,
    )


TRAINERS = {made.__name__: made for made in (own_loop, open_clips, transformers)}


def trainer_of(name: str, folder: Path) -> Trainer:
    """A trainer with a new model, the same each time."""
    torch.manual_seed(0)
    folder.mkdir()
    return TRAINERS[name](folder)


def trained(trainer: Trainer, loader: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The weights before and after a training, and the batches that it read."""
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    batches = Recorded(loader)
    trainer.train(batches, STEPS, 1)
    return {"before": before, "after": trainer.model.state_dict(), "batches": batches.batches}


def process(rank: int, name: str, run: Path, folder: Path) -> None:
    """One of two processes; what it read, and its weights, are saved."""
    import webdataset as wds

    trainer = trainer_of(name, folder / str(rank))
    ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}  # as torchrun sets them
    os.environ |= {**ranks, "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}  # not used: the processes meet at a file
    torch.distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)

    def prepared(sample: dict[str, Any]) -> dict[str, Any]:
        image = trainer.transform(Image.open(io.BytesIO(sample["png"])).convert("RGB"))
        text, negatives = sample["txt"].decode(), {name: sample[name] for name in ("negatives", "mask")}
        return {"text": text, "image": image, "caption": trainer.tokenize([text])[0], **negatives}

    urls = [str(folder / f"{n:05d}.tar") for n in range(TARS)]
    join = NegativesByKey(run, negatives=NEGATIVES, tokenize=trainer.tokenize)
    samples = (
        wds.WebDataset(urls, nodesplitter=wds.split_by_node, shardshuffle=TARS, seed=0).map(join).shuffle(8, seed=0)
    )
    samples = samples.map(prepared).batched(BATCH, partial=False)
    loader = DataLoader(samples, batch_size=None, num_workers=2, multiprocessing_context="fork")
    torch.save(trained(trainer, loader), folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


OTHERS = [
    pytest.param("open_clips", marks=pytest.mark.consumer("open_clip_train.train")),
    pytest.param("transformers", marks=pytest.mark.consumer("accelerate")),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("webdataset")
@pytest.mark.parametrize("name", ["own_loop", *OTHERS])
def test_two_processes_train_on_tars_as_one_would(name, tmp_path):
    import webdataset as wds

    captions, negatives = rows(14, 5)
    run = write_run(tmp_path / "run", captions, [row for row in negatives if row["image_id"] != "p003"])
    for n in range(TARS):
        with wds.TarWriter(str(tmp_path / f"{n:05d}.tar")) as tar:
            for i, row in enumerate(captions[n::TARS]):  # of different images
                image = Image.new("RGB", (9, 7), (20 * n, 25 * i, 90))
                tar.write({"__key__": row["image_id"], "png": image, "txt": row["text"]})
    multiprocessing.set_forkserver_preload([__name__, "webdataset"])  # both processes import them only once
    torch.multiprocessing.start_processes(process, (name, run, tmp_path), nprocs=2, start_method="forkserver")
    two = [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in (0, 1)]
    read = [text for one in two for batch in one["batches"] for text in batch["text"]]
    assert len({*read}) == len(read) == 2 * STEPS * BATCH  # none is read twice
    columns = ("image", "caption", "negatives", "mask")
    both = [{column: torch.cat([batch[column] for batch in step]) for column in columns}
            for step in zip(*(one["batches"] for one in two), strict=True)]  # fmt: skip
    masks = torch.cat([batch["mask"] for batch in both])
    assert masks.any() and not masks.all()
    one = trained(trainer_of(name, tmp_path / "one"), both)
    for weight, value in one["after"].items():
        first, second = (process["after"][weight] for process in two)
        assert torch.equal(first, second)
        torch.testing.assert_close(first, value, msg=lambda said, weight=weight: f"{weight}: {said}")
    changed = [weight for weight, value in one["after"].items() if not torch.equal(value, one["before"][weight])]
    assert len(changed) > len(one["after"]) / 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OTHERS)
def test_batches_are_chosen_anew_in_each_epoch(name, tmp_path):
    trainer = trainer_of(name, tmp_path / "trainer")
    images = write_images(tmp_path / "images", [f"p{i:03d}.jpg" for i in range(14)])
    run = write_run(tmp_path / "run", *rows(14, 5))
    given = {"images": images, "transform": trainer.transform, "tokenize": trainer.tokenize}
    batches = Negatives(run, negatives=2, batch_size=4, **given)
    before = {weight: value.clone() for weight, value in trainer.model.state_dict().items()}
    trainer.train(DataLoader(batches, batch_size=None, collate_fn=batches.collate), None, 2)
    assert int(batches._epoch) == 1
    assert any(not torch.equal(before[weight], value) for weight, value in trainer.model.state_dict().items())
    if name == "open_clips":
        optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.5)
        for model, more, message in [
            (TinyClip(), {}, r"model must give a dict: open_clip.create_model\(…, output_dict=True\)"),
            (trainer.model, {"accum_freq": 2}, "accum_freq cannot be changed: the loss with negatives needs 1"),
        ]:
            with pytest.raises(ValueError, match=message):
                train_openclip(model, batches, optimizer, **more)


@pytest.mark.parametrize(("batches", "message"), [
    (iter([]), "steps must be the batches of an epoch, as the loader does not say how many it has"),
    ([], "an epoch must have a batch, has 0"),
    ([{"image": ["a.jpg"], "caption": ["A dog."]}], "must have tensors image, caption, negatives and mask"),
])  # fmt: skip
def test_batches_that_cannot_be_trained_on_are_named(batches, message):
    with pytest.raises(ValueError, match=message):
        list(_Epochs(batches, None))
