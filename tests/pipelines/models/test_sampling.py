import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from negcap.pipelines.models.corpus import build_pool, pack_sentences, sample_negatives, shuffled_batches

OWNERS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=40)


@given(OWNERS, st.integers(1, 9), st.integers(0, 99))
def test_sampled_negatives_belong_to_their_captions_and_are_distinct(
    negatives: list[tuple[int, int, bool]], n: int, seed: int
) -> None:
    caption, family = (torch.tensor([row[k] for row in negatives], dtype=torch.long) for k in (0, 1))
    wanted = torch.tensor([row[2] for row in negatives], dtype=torch.bool)
    pool = build_pool(caption, family, wanted, 5)
    batch = torch.tensor([3, 0, 4, 3])
    drawn = sample_negatives(pool, batch, n, Generator().manual_seed(seed))
    assert wanted[drawn.rows].all()
    assert caption[drawn.rows].tolist() == batch[drawn.owner].tolist()
    for place, of in enumerate(batch.tolist()):
        mine = drawn.rows[drawn.owner == place].tolist()
        assert len(set(mine)) == len(mine) == min(n, int((wanted & (caption == of)).sum()))


def test_families_are_equally_likely_whatever_their_sizes() -> None:
    caption = torch.zeros(22, dtype=torch.long)
    family = torch.tensor([0] * 20 + [1, 1])
    pool = build_pool(caption, family, torch.ones(22, dtype=torch.bool), 1)
    batch, generator = torch.zeros(4000, dtype=torch.long), Generator().manual_seed(0)
    rows = sample_negatives(pool, batch, 1, generator).rows
    assert (rows >= 20).double().mean().item() == pytest.approx(0.5, abs=0.03)
    assert torch.bincount(rows, minlength=22)[:20].min() > 50  # 100 expected
    again = sample_negatives(pool, batch, 1, generator).rows
    assert (rows != again).double().mean() > 0.5  # sampled anew each time
    assert torch.equal(rows, sample_negatives(pool, batch, 1, Generator().manual_seed(0)).rows)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=9), st.data())
def test_a_packed_batch_equals_torchs(lengths: list[int], data: st.DataObject) -> None:
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=9)))
    tokens = torch.arange(int(offsets[-1]))
    packed = pack_sentences(offsets, rows)
    sentences = [tokens[offsets[row] : offsets[row + 1]] for row in rows]
    expected = torch.nn.utils.rnn.pack_sequence(sorted(sentences, key=len, reverse=True))
    assert torch.equal(tokens[packed.positions], expected.data)
    assert torch.equal(packed.sizes, expected.batch_sizes)
    for place, sentence in zip(packed.inverse.tolist(), sentences, strict=True):
        assert tokens[packed.positions[place]] == sentence[0]


def test_batches_contain_every_caption_once() -> None:
    captions = torch.arange(100, 121)
    batches = list(shuffled_batches(captions, 4, Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [4] * 5  # the 21st alone would have no negative
    seen = torch.cat(list(shuffled_batches(captions, 5, Generator().manual_seed(0)))[:4])
    assert len(seen.unique()) == 20 and seen.tolist() != sorted(seen.tolist())
    assert torch.equal(batches[0], next(shuffled_batches(captions, 4, Generator().manual_seed(0))))
