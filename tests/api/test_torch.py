"""negcap.Negatives: the same batches for any number of workers and ranks; negatives by key; the loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from negcap import CaptionBatch, Negatives, NegativesByKey, NegativesLoss
from tests.pipelines.publish.fixtures import rows, write_images, write_run

IMAGES, TESTS = 14, 5
CAPTIONS, ROWS = rows(IMAGES, TESTS)
ROWS = [row for row in ROWS if row["image_id"] != "p003"]  # one image's captions have none
TRAINED = [row["text"] for row in CAPTIONS if row["split"] == "train"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("toy") / "run", CAPTIONS, ROWS)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), [f"p{i:03d}.jpg" for i in range(IMAGES)])


def batches(run: Path, workers: int = 0, **given: Any) -> list[CaptionBatch]:
    made = Negatives(run, **{"negatives": 4, "batch_size": 4, **given})
    found = list(DataLoader(made, batch_size=None, collate_fn=made.collate, num_workers=workers))
    return [{**batch, "mask": batch["mask"].tolist()} for batch in found]


def negatives_of_captions() -> dict[str, set[str]]:
    false: dict[str, set[str]] = {row["text"]: set() for row in CAPTIONS}
    for row in ROWS:
        false[row["caption"]].add(row["text"])
    return false


def test_all_captions_come_with_their_own_negatives(run):
    false = negatives_of_captions()
    image_of = {row["text"]: row["image_id"] for row in CAPTIONS}
    seen, numbers = [], set()
    for batch in batches(run, negatives=4, drop_last=False):
        for n, caption in enumerate(batch["caption"]):
            negatives, mask = batch["negatives"][n], batch["mask"][n]
            there = min(4, len(false[caption]))
            assert mask == [True] * there + [False] * (4 - there) and negatives[there:] == [""] * (4 - there)
            assert len(set(negatives[:there])) == there and set(negatives[:there]) <= false[caption]
            assert batch["image_id"][n] == image_of[caption]
            numbers.add(there)
            seen.append(caption)
    assert numbers == {0, 3, 4} and sorted(seen) == sorted(TRAINED)
    made = Negatives(run)
    assert (made.captions, made.with_negatives) == (45, 40)


def test_a_run_without_splits_is_taken_whole(tmp_path):
    rows = [[{**row, "split": ""} for row in table] for table in (CAPTIONS, ROWS)]
    with pytest.warns(UserWarning, match="has no splits: all its captions are taken"):
        assert Negatives(write_run(tmp_path / "run", *rows)).captions == len(CAPTIONS)


def test_workers_and_ranks_change_no_batch(run):
    whole = batches(run)
    assert batches(run, workers=2) == whole and len(whole) == 45 // 4
    for ranks in (2, 3):
        shares = [batches(run, rank=rank, ranks=ranks) for rank in range(ranks)]
        assert len({len(share) for share in shares}) == 1  # none waits for another
        together = [shares[n % ranks][n // ranks] for n in range(ranks * len(shares[0]))]
        assert together == whole[: len(together)]
    shares = [batches(run, rank=rank, ranks=3, drop_last=False) for rank in range(3)]
    assert sum(len(batch["caption"]) for share in shares for batch in share) == 45


def test_epochs_differ_and_repeat(run):
    made = Negatives(run, negatives=2, batch_size=45)
    loader = DataLoader(made, batch_size=None, num_workers=1, persistent_workers=True)
    epochs = []
    for epoch in (0, 1, 0):
        made.set_epoch(epoch)  # reaches a worker that is already running
        epochs += [{**batch, "mask": batch["mask"].tolist()} for batch in loader]
    assert epochs[0] == epochs[2] != epochs[1]
    assert sorted(epochs[0]["caption"]) == sorted(epochs[1]["caption"])
    chosen = [dict(zip(epoch["caption"], epoch["negatives"], strict=True)) for epoch in epochs[:2]]
    assert chosen[0] != chosen[1]  # other negatives, not only another order
    assert batches(run, seed=1) != batches(run)
    in_order = [caption for batch in batches(run, shuffle=False, drop_last=False) for caption in batch["caption"]]
    assert in_order == TRAINED


def test_operators_splits_images_and_tokens(run, images):
    numeral = batches(run, operators="numeral", split="test", drop_last=False, images=images)
    assert sum(any(mask) for batch in numeral for mask in batch["mask"]) == 4 * TESTS  # of five captions an image
    assert {"dozen" in text for batch in numeral for some in batch["negatives"] for text in some if text} == {True}
    assert all(path.is_file() for batch in numeral for path in batch["image"])
    tensors: dict[str, Any] = {"transform": lambda image: torch.tensor(image.size)}
    tensors["tokenize"] = lambda texts: torch.tensor([[len(text), 0] for text in texts])
    first = batches(run, images=images, **tensors)[0]
    plain = batches(run)[0]
    assert first["image"].tolist() == [[16 + int(name[1:]), 12] for name in plain["image_id"]]
    assert first["caption"][:, 0].tolist() == [len(text) for text in plain["caption"]]
    assert first["negatives"][:, :, 0].tolist() == [[len(text) for text in some] for some in plain["negatives"]]


@pytest.mark.parametrize(("given", "message"), [
    ({"negatives": 0}, "negatives must be >= 1, was: 0"),
    ({"split": "dev"}, "must have captions of split dev with negatives, has none"),
    ({"operators": "verb"}, "must have captions of split train with negatives of these operators, has none"),
    ({"refined": True}, "has no refined negatives yet: run negcap refine"),
    ({"rank": 2, "ranks": 2}, "rank must be from 0 to 1, was: 2"),
    ({"transform": len}, "a transform needs the image files: images=FOLDER"),
])  # fmt: skip
def test_what_cannot_be_is_named(given, message, run):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        Negatives(run, **given)


def test_what_several_operators_made_is_one_negative(tmp_path):
    captions, negatives = rows(2, 2)
    false = {row["text"] for row in negatives if row["caption_id"] == captions[0]["caption_id"]}
    twice = [{**row, "operator": "object", "negative_id": row["negative_id"] + "b"} for row in negatives]
    run = write_run(tmp_path / "run", captions, negatives + twice)
    joined = NegativesByKey(run, negatives=9)({"__key__": captions[0]["image_id"], "txt": captions[0]["text"]})
    assert sorted(joined["negatives"][: len(false)]) == sorted(false) and joined["mask"].sum() == len(false)
    batch = next(iter(Negatives(run, negatives=9, batch_size=10, split=(), shuffle=False)))
    assert sorted(filter(None, batch["negatives"][0])) == sorted(false)


def test_negatives_join_samples_by_key_and_caption(run):
    false, join = negatives_of_captions(), NegativesByKey(run, negatives=5)
    for row in CAPTIONS:
        made = false[row["text"]]
        joined = join({"__key__": row["image_id"], "txt": f" {row['text']} ".encode(), "jpg": 1})
        there = len(made)
        assert joined["mask"].tolist() == [n < there for n in range(5)] and joined["jpg"] == 1
        assert set(joined["negatives"][:there]) == made and joined["negatives"][there:] == [""] * (5 - there)
    sample = {"__key__": "p000", "txt": CAPTIONS[0]["text"]}
    assert len({tuple(join(sample)["negatives"]) for _ in range(20)}) > 1  # in another order each time
    few = NegativesByKey(run, negatives=1, operators="numeral", tokenize=lambda texts: torch.tensor([*map(len, texts)]))
    assert few(sample)["negatives"].tolist() == [len(text) for text in false[sample["txt"]] if "dozen" in text]
    for other in ({**sample, "__key__": "p001"}, {**sample, "__key__": "unknown"}, {**sample, "txt": ""}):
        assert not join(other)["mask"].any()
    with pytest.raises(ValueError, match="samples must have txt, one has: __key__, text"):
        join({"__key__": "p000", "text": ""})
    wrong = NegativesByKey(run)
    with pytest.raises(ValueError, match="txt must be the captions of .*: of 1,000 samples none has negatives"):
        [wrong({"__key__": f"{n}", "txt": "A dog."}) for n in range(1000)]


def test_the_loss_is_negclips():
    images, texts = (torch.nn.functional.normalize(torch.randn(n, 5), dim=1) for n in (3, 3 * (1 + 2)))
    there = torch.tensor([[True, True], [False, False], [True, False]])
    loss = 0.0
    for i in range(3):
        scores = 10 * texts @ images[i]
        loss -= float(scores[i] - scores[torch.cat([torch.ones(3, dtype=torch.bool), there.flatten()])].logsumexp(0))
        columns = 10 * images @ texts[i]
        loss -= float(columns[i] - columns.logsumexp(0))
    negclip = NegativesLoss()
    assert float(negclip(images, texts, 10.0, there)) == pytest.approx(loss / 6, abs=1e-4)
    for mask, shape in ((None, "None"), (there[:, :1], r"\(3, 1\)")):
        with pytest.raises(ValueError, match=f"mask must be of 3 captions and their negatives, .* was: {shape}"):
            negclip(images, texts, 10.0, mask)
    negclip.mask = there  # as OpenCLIP calls it
    found = negclip(images, texts, torch.tensor(10.0), output_dict=True, logit_bias=None)
    assert float(found["contrastive_loss"]) == pytest.approx(loss / 6, abs=1e-4)
