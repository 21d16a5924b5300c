"""negcap.Negatives: the same batches for any number of workers and ranks; OpenCLIP's trainer with negatives."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from negcap import Batch, Negatives
from tests.docs.pages import FOLDER, blocks
from tests.pipelines.publish.fixtures import rows, write_images, write_run

IMAGES, TESTS = 14, 5
PAGE = FOLDER / "how-to" / "contrast.md"


CAPTIONS, ROWS = rows(IMAGES, TESTS)
TRAINED = [row["text"] for row in CAPTIONS if row["split"] == "train"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("toy") / "run", CAPTIONS, ROWS)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), [f"p{i:03d}.jpg" for i in range(IMAGES)])


def batches(run: Path, workers: int = 0, **given: Any) -> list[Batch]:
    made = Negatives(run, **{"negatives": 4, "batch_size": 4, **given})
    return list(DataLoader(made, batch_size=None, collate_fn=made.collate, num_workers=workers))


def test_captions_come_with_their_own_negatives(run: Path) -> None:
    false: dict[str, set[str]] = {}
    for row in ROWS:
        false.setdefault(row["caption"], set()).add(row["text"])
    for batch in batches(run):
        for image, caption, some in zip(batch["image_id"], batch["caption"], batch["negatives"], strict=True):
            assert len(some) == 4 and set(some) <= false[caption]
            assert len(set(some)) == min(4, len(false[caption]))  # repeated only where there are no more
            assert image in {row["image_id"] for row in CAPTIONS if row["text"] == caption}
    seen = [caption for batch in batches(run, drop_last=False) for caption in batch["caption"]]
    assert sorted(seen) == sorted(TRAINED)


def test_workers_and_ranks_change_no_batch(run: Path) -> None:
    whole = batches(run)
    assert batches(run, workers=2) == whole and len(whole) == 45 // 4
    for ranks in (2, 3):
        shares = [batches(run, rank=rank, ranks=ranks) for rank in range(ranks)]
        assert len({len(share) for share in shares}) == 1  # none waits for another
        together = [shares[n % ranks][n // ranks] for n in range(ranks * len(shares[0]))]
        assert together == whole[: len(together)]
    shares = [batches(run, rank=rank, ranks=3, drop_last=False) for rank in range(3)]
    assert sum(len(batch["caption"]) for share in shares for batch in share) == 45
    assert list(DataLoader(Negatives(run, batch_size=4, negatives=4), batch_size=None)) == whole


def test_epochs_differ_and_repeat(run: Path) -> None:
    made = Negatives(run, negatives=2, batch_size=45)
    loader = DataLoader(made, batch_size=None, num_workers=1, persistent_workers=True)
    epochs = []
    for epoch in (0, 1, 0):
        made.set_epoch(epoch)  # reaches a worker that is already running
        epochs += list(loader)
    assert epochs[0] == epochs[2] != epochs[1]
    assert sorted(epochs[0]["caption"]) == sorted(epochs[1]["caption"])
    chosen = [dict(zip(epoch["caption"], epoch["negatives"], strict=True)) for epoch in epochs[:2]]
    assert chosen[0] != chosen[1]  # other negatives, not only another order
    assert batches(run, seed=1) != batches(run)
    in_order = [caption for batch in batches(run, shuffle=False, drop_last=False) for caption in batch["caption"]]
    assert in_order == TRAINED


def test_operators_splits_images_and_tokens(run: Path, images: Path) -> None:
    numeral = batches(run, operators="numeral", split="test", drop_last=False, images=images)
    assert sum(len(batch["caption"]) for batch in numeral) == 4 * TESTS
    assert all("dozen" in text for batch in numeral for some in batch["negatives"] for text in some)
    assert all(path.is_file() for batch in numeral for path in batch["image"])
    size, length = (
        lambda image: torch.tensor(image.size),
        lambda texts: torch.tensor([[len(text), 0] for text in texts]),
    )
    first = batches(run, images=images, transform=size, tokenize=length)[0]
    plain = batches(run)[0]
    assert first["image"].tolist() == [[16 + int(name[1:]), 12] for name in plain["image_id"]]
    assert first["caption"][:, 0].tolist() == [len(text) for text in plain["caption"]]
    assert first["negatives"][:, :, 0].tolist() == [[len(text) for text in some] for some in plain["negatives"]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"negatives": 0}, "negatives must be >= 1, was: 0"),
        ({"split": "dev"}, "must have captions of split dev with negatives, has none"),
        ({"operators": "verb"}, "must have captions of split train with negatives of these operators, has none"),
        ({"refined": True}, "has no refined: run negcap refine .* first"),
        ({"rank": 2, "ranks": 2}, "rank must be from 0 to 1, was: 2"),
        ({"transform": len}, "a transform needs the image files: images=FOLDER"),
    ],
)
def test_what_cannot_be_is_named(given: dict[str, Any], message: str, run: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        Negatives(run, **given)


@pytest.fixture(scope="module")
def snippet() -> SimpleNamespace:
    """The loader and the loss for OpenCLIP that the page on PyTorch trainers shows."""
    (code,) = (block.text for block in blocks(PAGE) if "class NegativesLoss" in block.text)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return SimpleNamespace(**names)


def test_the_loss_for_open_clip_is_negclips(snippet: Any) -> None:
    images, texts = (torch.nn.functional.normalize(torch.randn(n, 5), dim=1) for n in (3, 3 * (1 + 2)))
    loss = 0.0
    for i in range(3):
        scores = [10 * float(images[i] @ text) for text in texts]
        loss -= scores[i] - float(torch.tensor(scores).logsumexp(0))
        columns = torch.tensor([10 * float(image @ texts[i]) for image in images])
        loss -= float(columns[i] - columns.logsumexp(0))
    found = snippet.NegativesLoss()(images, texts, torch.tensor(10.0), output_dict=True, logit_bias=None)
    assert found["contrastive_loss"] == pytest.approx(loss / 6, abs=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("open_clip_train.train")
def test_open_clips_trainer_takes_negatives(snippet: Any, run: Path, images: Path) -> None:
    import open_clip
    from open_clip_train.train import train_one_epoch

    tower = {"width": 16, "layers": 1}
    model = open_clip.CLIP(
        8,
        {**tower, "image_size": 16, "patch_size": 8, "head_width": 8},
        {**tower, "heads": 2, "context_length": 16, "vocab_size": 49408},
        output_dict=True,
    )
    pixels = open_clip.image_transform(16, is_train=False)
    tokens = open_clip.SimpleTokenizer(context_length=16)
    made = Negatives(run, negatives=2, batch_size=8, images=images, transform=pixels, tokenize=tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    args = SimpleNamespace(
        **{"device": "cpu", "precision": "fp32", "distill": False, "accum_freq": 1, "skip_scheduler": True,
           "grad_clip_norm": None, "horovod": False, "log_every_n_steps": 1, "batch_size": 8, "world_size": 1,
           "wandb": False, "rank": 0, "local_rank": 0, "log_local": False, "tensorboard": False}
    )  # fmt: skip
    train_one_epoch(model, snippet.data(made), snippet.NegativesLoss(), 0, optimizer, None, None, None, args)
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert "visual.conv1.weight" in changed and "token_embedding.weight" in changed
