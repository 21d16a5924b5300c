"""Saliency of words and regions, and VSE-C's word-level tasks on made data where the answer is known."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import torch
from torch import Generator

from negcap.augment.language.parse import parse_table
from negcap.pipelines.models.encoders import ImageEncoder, TextEncoder, word_embedding
from negcap.pipelines.models.probe import saliency, task
from negcap.pipelines.models.probe.blanks import (
    BlankFiller,
    Blanks,
    FillerTraining,
    blank_ranks,
    read_blanks,
    recalls,
    train_filler,
)
from negcap.pipelines.models.probe.objects import (
    ClassifierTraining,
    Objects,
    frequent_objects,
    mean_average_precision,
    train_classifier,
)
from negcap.pipelines.models.probe.task import learned_vectors, word_tables
from negcap.pipelines.models.similarities import SIMILARITIES
from negcap.pipelines.models.vocabulary import build_vocabulary, tokenize, word_spans
from tests.pipelines.models.conftest import LossesAsBefore
from tests.tables import write_table


def write_parses(run: Path, texts: list[tuple[str, str]]) -> None:
    images, written = zip(*texts, strict=True)
    ids = [f"x:{n}" for n in range(len(texts))]
    columns = {"caption_id": ids, "image_id": images, "split": ["train"] * len(ids), "origin": ["human"] * len(ids)}
    write_table(run, "parses", parse_table(pa.table({**columns, "text": written})))


def test_what_models_learned_is_joined_at_the_length_of_the_vectors_of_the_file(tmp_path, monkeypatch):
    vocabulary = build_vocabulary(["dog cat"], 1)
    learned = word_embedding(len(vocabulary), 4, Generator().manual_seed(0), None, True)
    text = torch.nn.Module()
    text.embedding = learned
    model = SimpleNamespace(text=torch.nn.ModuleDict({"en": text, "de": torch.nn.Module()}))
    monkeypatch.setattr(task, "load_model", lambda folder, device: (model, {"en": vocabulary}, None))
    (tmp_path / "glove.txt").write_text("dog 3 4 0\ncat 0 0 15\n")
    tables = word_tables(tmp_path / "glove.txt", [tmp_path / "vse"], ["dog", "cat", "puppy"], 0)
    assert list(tables) == ["vectors of the file", "with random numbers", "vse"]
    for name in ("with random numbers", "vse"):
        assert tables[name][:2, :3].tolist() == [[3, 4, 0], [0, 0, 15]]
        assert tables[name][:2, 3:].norm(dim=1).mean().item() == pytest.approx(10)  # that of 5 and 15
        assert tables[name][2].isnan().any()
    ratio = tables["vse"][:2, 3:] / learned.weight.detach()[[vocabulary.ids["dog"], vocabulary.ids["cat"]]]
    assert torch.allclose(ratio, ratio[0, 0].expand(2, 4))
    with pytest.raises(ValueError, match="must have a table of word vectors, has: Linear"):
        learned_vectors(torch.nn.Linear(2, 2))


def test_objects_of_an_image_are_the_heads_of_all_its_captions(tmp_path: Path) -> None:
    dogs, cats = ("A dog runs on the grass.", "Two dogs."), ("A cat and a puppy.", "An animal under a table.")
    write_parses(tmp_path, [*(("a", text) for text in dogs), *(("b", text) for text in cats)])
    objects = frequent_objects(tmp_path, ["a", "b", "without captions"], 1)
    assert objects.words == ["animal", "cat", "dog", "grass", "puppy", "table"]
    assert [row.nonzero().flatten().tolist() for row in objects.present] == [[2, 3], [0, 1, 4, 5], []]
    # of the dog's relatives, a puppy is a direct one and an animal is several steps above
    assert objects.absent[0].tolist() == [True, True, False, False, False, True]
    assert frequent_objects(tmp_path, ["a", "b"], 2).words == ["dog"]
    with pytest.raises(ValueError, match="objects must occur 9 times"):
        frequent_objects(tmp_path, ["a"], 9)


def test_the_classifier_learns_which_objects_an_image_shows_with_losses_as_before(losses_as_before):
    """Of 100 images whose feature k is 1 if object k is there, and one-hot words."""
    generator = Generator().manual_seed(0)
    present = torch.rand(100, 6, generator=generator) < torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    words, features, objects = torch.eye(6), present.float(), Objects(list("abcdef"), present, ~present)
    with losses_as_before("image_to_word"):
        train_classifier(words, features, objects, training=ClassifierTraining(epochs=6, batch_size=32))
    fast = ClassifierTraining(epochs=40, learning_rate=1.0, dropout=0.2)
    classifier = train_classifier(words, features, objects, training=fast)
    learned = mean_average_precision(lambda images: classifier.scores(words, images), features, objects, 0)
    assert learned.figure.value > 96
    pairs = classifier(words, features[:6])[:, 1]
    assert torch.allclose(pairs, classifier.scores(words, features[:6]).diagonal(), atol=1e-5)


def test_objects_that_are_neither_shown_nor_absent_do_not_count_and_ties_count_against() -> None:
    present = torch.tensor([[True, False, False]])
    objects = Objects(["a", "b", "c"], present, torch.tensor([[False, False, True]]))
    result = mean_average_precision(lambda images: torch.tensor([[1.0, 2.0, 1.0]]), torch.zeros(1, 1), objects, 0)
    assert result.figure.value == 50.0  # only the tie with c is above; b would make it a third


def test_word_spans_are_where_the_tokens_are() -> None:
    text = "Two dogs' owner says, it isn't  RED, a man-made lake."
    assert [text[start:end].lower() for start, end in word_spans(text)] == tokenize(text)


def test_blanks_are_noun_heads_and_prepositions_of_table_8(tmp_path: Path) -> None:
    texts = [("a", "A dog runs on the grass."), ("b", "He sleeps."), ("c", "A cat of gold under a table.")]
    write_parses(tmp_path, texts)
    vocabulary = build_vocabulary((text for _, text in texts), 1)
    known = torch.ones(len(vocabulary), dtype=torch.bool)
    known[vocabulary.ids["grass"]] = False
    blanks = read_blanks(tmp_path, ["x:0", "x:1", "x:2"], torch.tensor([5, 6, 7]), vocabulary, known)
    assert [vocabulary.words[n] for n in blanks.words.tolist()] == ["dog", "on", "cat", "of", "gold", "under", "table"]
    assert blanks.kind.tolist() == [0, 1, 0, 1, 0, 1, 0] and blanks.image.tolist() == [5, 7]
    assert blanks.starts.tolist() == [0, 2, 7] and blanks.caption.tolist() == [0, 0, 1, 1, 1, 1, 1]


def test_blanks_are_filled_from_the_image_with_losses_as_before(losses_as_before: LossesAsBefore) -> None:
    """Of 64 captions `<start> word k <end>` with k = 5 … 8 blanked, and only the image says which k it is."""
    n = 64
    kinds = torch.arange(n) % 4
    tokens = torch.stack([torch.ones(n), torch.full((n,), 4), 5 + kinds, torch.full((n,), 2)], 1).int().flatten()
    words, features, starts = torch.cat([torch.zeros(4, 5), torch.eye(5)]), torch.eye(4)[kinds], torch.arange(n + 1)
    blanks = Blanks(tokens, 4 * starts, torch.arange(n), starts, torch.full((n,), 2), kinds % 2)
    small = FillerTraining(epochs=4, states=4, hidden=16, batch_size=24)
    with losses_as_before("blanks"):
        train_filler(words, features, blanks, training=small)
    seeing = train_filler(words, features, blanks, training=small._replace(learning_rate=0.02, epochs=30))
    of_kinds = recalls(blank_ranks(seeing, features, blanks, torch.arange(4, 9)), blanks.kind)
    assert of_kinds["both"]["R@1"] == of_kinds["noun"]["R@1"] == 100
    changed = blanks._replace(tokens=torch.where(blanks.tokens == 5, 6, blanks.tokens))  # the blanked words
    every = torch.arange(n)
    with torch.inference_mode():
        assert torch.equal(*(seeing(given, every, every, every, features) for given in (blanks, changed)))


def test_blanks_are_filled_on_the_device_of_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, torch's device `meta` stands for one: it refuses tensors of two devices as a GPU does."""
    meta = torch.device("meta")
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # only a GPU's driver can
    tokens = torch.tensor([1, 5, 6, 7, 2, 1, 7, 2], dtype=torch.int32)
    starts, positions = torch.tensor([0, 2, 3]), torch.tensor([1, 3, 1])
    blanks = Blanks(tokens, torch.tensor([0, 5, 8]), torch.tensor([1, 0]), starts, positions, torch.tensor([0, 1, 0]))
    filler = BlankFiller(torch.rand(9, 4), 6, 8, 5).to(meta)
    vectors = filler(blanks, torch.arange(2), torch.tensor([1, 2]), torch.arange(2), torch.rand(2, 6, device=meta))
    assert vectors.shape == (2, 4) and vectors.device == meta


def model(pooling: str = "average") -> SimpleNamespace:
    generator = Generator().manual_seed(0)
    text = TextEncoder(word_embedding(9, 5, generator, None, True), 5, 4, generator)
    return SimpleNamespace(image=ImageEncoder(6, 4, "none", generator, pooling), text=text)


def test_the_gradient_to_a_word_is_what_its_vector_changes_the_score_by() -> None:
    net = model()
    tokens, offsets = torch.tensor([1, 5, 6, 5, 2, 1, 7, 2], dtype=torch.int32), torch.tensor([0, 5, 8])
    features = torch.rand(2, 6, generator=Generator().manual_seed(1))
    scores, words, regions = saliency.gradients(net, SIMILARITIES["cosine"], tokens, offsets, features)
    assert words.shape == (2, 5) and regions is None and torch.all(words[1, 3:] == 0)
    weight = net.text.embedding.weight
    with torch.no_grad():  # the word 7 stands once: its gradient by differences
        differences = []
        for k in range(5):
            weight[7, k] += 1e-3
            moved = (net.image(features) * net.text(tokens, offsets, torch.arange(2))).sum(1)[1]
            weight[7, k] -= 1e-3
            differences.append(((moved - scores[1]) / 1e-3).abs())
    assert words[1, 1].item() == pytest.approx(torch.stack(differences).mean().item(), rel=0.05)
    assert weight.grad is None and words[0, 1] != words[0, 3]  # the same word at two places


def test_edited_words_are_those_that_an_edit_put_in() -> None:
    text = "Two dogs are on a couch."  # of "A dog is on a sofa."
    spans = [(0, 3), (4, 8), (9, 12), (13, 15), (16, 17), (18, 23), (23, 24)]
    edits = [(0, 1, "Two"), (2, 5, "dogs"), (6, 8, "are"), (14, 18, "couch")]
    edited = saliency.edited_words(spans, [{"start": start, "end": end, "new": new} for start, end, new in edits])
    assert [text[a:b] for (a, b), new in zip(spans, edited, strict=True) if new] == ["Two", "dogs", "are", "couch"]


def negative(operator: str, image: int, shares: list[float], edits: int) -> saliency.SalientNegative:
    """A negative with the share of each word, of which the first ones are edited."""
    edited = [n < edits for n in range(len(shares))]
    return saliency.SalientNegative(operator, image, ["w"] * len(shares), shares, edited, 0.5, torch.rand(4))


def test_the_share_on_edits_is_compared_with_chance(tmp_path: Path) -> None:
    negatives = saliency.saliency_table(
        [
            negative("noun", 0, [0.7, 0.2, 0.1], edits=1),
            negative("noun", 1, [0.5, 0.25, 0.15, 0.1], edits=2),
            negative("numeral", 1, [0.5, 0.5], edits=1),
        ]
    )
    noun = saliency.summarize(negatives, 0)["noun"]
    share, chance = 100 * (0.7 + 0.75) / 2, 100 * (1 / 3 + 0.5) / 2
    assert noun["negatives"] == 2 and noun["share interval"] == pytest.approx([70, 75])
    assert [noun[name] for name in ("share", "chance", "beyond chance")] == pytest.approx(
        [share, chance, share - chance]
    )
    many = saliency.saliency_table([negative("noun", image, [0.1] * 10, edits=1) for image in (0, 0, 1, 2, 3)])
    assert saliency.choose_shown(many, {})["image"].tolist() == [0, 1]
    # a score that depends on no word
    zero = saliency.saliency_table([negative("noun", 0, [0.0, 0.0], edits=1)])
    saliency.draw_saliency(zero, {}, tmp_path / "zero.png")
