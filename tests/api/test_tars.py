"""Two processes (gloo), of two workers each, train on the tars of a WebDataset with negatives joined by key."""

import io
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from negcap import NegativesByKey
from tests.docs.pages import FOLDER, snippet_with

TARS, BATCH, STEPS, NEGATIVES, LETTERS = 8, 4, 3, 4, 128
PAGE = FOLDER / "how-to" / "contrast.md"


class TinyClip(torch.nn.Module):
    """A linear map of 4 x 4 pixels, and the mean of vectors of letters."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels, self.letters = torch.nn.Linear(48, 8), torch.nn.EmbeddingBag(LETTERS, 8)

    def forward(self, image: torch.Tensor, texts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        unit = torch.nn.functional.normalize
        return unit(self.pixels(image.flatten(1)), dim=1), unit(self.letters(texts), dim=1)


def tokens(texts: list[str]) -> torch.Tensor:
    return torch.tensor([[ord(letter) for letter in text.ljust(99)] for text in texts])


def prepared(sample: dict[str, Any]) -> dict[str, Any]:
    pixels = np.array(Image.open(io.BytesIO(sample["png"])).convert("RGB").resize((4, 4)))
    text, negatives = sample["txt"].decode(), {name: sample[name] for name in ("negatives", "mask")}
    return {"text": text, "image": torch.from_numpy(pixels).float() / 255, "caption": tokens([text])[0], **negatives}


def step(model: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    """The loss of the documentation; the gradients are computed."""
    negclip = snippet_with("class NegativesLoss", PAGE).NegativesLoss()
    negclip.mask = batch["mask"]
    model.zero_grad()
    loss = negclip(*model(batch["image"], torch.cat([batch["caption"], batch["negatives"].flatten(0, 1)])), 5.0)
    loss.backward()
    return loss.detach()


def train(rank: int, run: Path, folder: Path) -> None:
    """Some steps of one of the two processes; what it read, and its last step, are saved."""
    import webdataset as wds

    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}  # as torchrun does
    torch.distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(TinyClip())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    urls = [str(folder / f"{n:05d}.tar") for n in range(TARS)]
    join = NegativesByKey(run, negatives=NEGATIVES, tokenize=tokens)
    samples = wds.WebDataset(urls, nodesplitter=wds.split_by_node, shardshuffle=TARS, seed=0).map(join)
    samples = samples.shuffle(8, seed=0).map(prepared).batched(BATCH, partial=False)
    read: list[str] = []
    for batch in DataLoader(samples, batch_size=None, num_workers=2, multiprocessing_context="fork"):
        read += batch["text"]
        weights = {name: value.clone() for name, value in model.module.state_dict().items()}
        loss = step(model, batch)
        gradients = [value.grad for value in model.parameters()]
        optimizer.step()
        if len(read) == STEPS * BATCH:
            break
    saved = {"read": read, "batch": batch, "weights": weights, "loss": loss, "gradients": gradients}
    torch.save(saved, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("webdataset")
def test_two_processes_train_on_tars_as_one_would(tmp_path: Path) -> None:
    import webdataset as wds

    from tests.pipelines.publish.fixtures import rows, write_run

    captions, negatives = rows(14, 5)
    run = write_run(tmp_path / "run", captions, [row for row in negatives if row["image_id"] != "p003"])
    for n in range(TARS):
        with wds.TarWriter(str(tmp_path / f"{n:05d}.tar")) as tar:
            for i, row in enumerate(captions[n::TARS]):  # of different images
                image = Image.new("RGB", (9, 7), (20 * n, 25 * i, 90))
                tar.write({"__key__": row["image_id"], "png": image, "txt": row["text"]})
    multiprocessing.set_forkserver_preload([__name__, "webdataset"])  # both processes import them only once
    torch.multiprocessing.start_processes(train, (run, tmp_path), nprocs=2, start_method="forkserver")
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in (0, 1))
    assert len({*first["read"], *second["read"]}) == 2 * STEPS * BATCH  # none is read twice
    model = TinyClip()
    model.load_state_dict(first["weights"])
    both = {name: torch.cat([one["batch"][name] for one in (first, second)]) for name in ("image", "caption", "mask")}
    both["negatives"] = torch.cat([one["batch"]["negatives"] for one in (first, second)])
    assert both["mask"].any() and not both["mask"].all()
    torch.testing.assert_close(step(model, both), (first["loss"] + second["loss"]) / 2)
    for mine, theirs, parameter in zip(first["gradients"], second["gradients"], model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        torch.testing.assert_close(mine, parameter.grad)
