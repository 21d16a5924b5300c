"""VSE-C's word-level tasks on made data where the answer is known."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import torch

from negcap.augment.language.parse import parse_table
from negcap.pipelines.models.encoders import TwoPartEmbedding, word_embedding
from negcap.pipelines.models.probe import blanks as of_blanks
from negcap.pipelines.models.probe import objects as of_objects
from negcap.pipelines.models.probe import task
from negcap.pipelines.models.probe.blanks import Blanks, blank_ranks, read_blanks, recalls, train_filler
from negcap.pipelines.models.probe.objects import Objects, frequent_objects, mean_average_precision, train_classifier
from negcap.pipelines.models.probe.task import learned_vectors, word_tables
from negcap.pipelines.models.vocabulary import build_vocabulary, tokenize, word_spans
from tests.pipelines.models.golden_losses import losses_as_before
from tests.tables import write_table

TEXTS = [
    ("a", "A dog runs on the grass."),
    ("a", "Two dogs."),
    ("b", "A cat and a puppy."),
    ("b", "An animal under a table."),
]


def write_parses(run: Path, texts: list[tuple[str, str]]) -> pa.Table:
    images, written = zip(*texts, strict=True)
    ids = [f"x:{n}" for n in range(len(texts))]
    columns = {"caption_id": ids, "image_id": images, "split": ["train"] * len(ids), "origin": ["human"] * len(ids)}
    parses = parse_table(pa.table({**columns, "text": written}))
    write_table(run, "parses", parses)
    return parses


@pytest.mark.parametrize("languages", [(), ("en", "de")])
def test_what_models_learned_is_joined_at_the_length_of_the_vectors_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, languages: tuple[str, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    vocabulary = build_vocabulary(["dog cat"], 1)
    learned = word_embedding(len(vocabulary), 4, generator, None, True)
    text = torch.nn.Module()
    text.embedding = learned
    others = {language: torch.nn.Module() for language in languages[1:]}
    model = SimpleNamespace(text=torch.nn.ModuleDict({languages[0]: text, **others}) if languages else text)
    monkeypatch.setattr(task, "load_model", lambda folder, device: (model, {"en": vocabulary}, None))
    (tmp_path / "glove.txt").write_text("dog 3 4 0\ncat 0 0 15\n")
    tables = word_tables(tmp_path / "glove.txt", [tmp_path / "vse"], ["dog", "cat", "puppy"], 0)
    assert list(tables) == ["vectors of the file", "with random numbers", "vse"]
    rows = learned.weight.detach()[[vocabulary.ids["dog"], vocabulary.ids["cat"]]]
    for name in ("with random numbers", "vse"):
        assert torch.equal(tables[name][:2, :3], torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 15.0]]))
        assert tables[name][:2, 3:].norm(dim=1).mean().item() == pytest.approx(10)  # that of 5 and 15
        assert tables[name][2].isnan().any()
    ratio = tables["vse"][:2, 3:] / rows
    assert torch.allclose(ratio, ratio[0, 0].expand(2, 4))


def test_objects_of_an_image_are_the_heads_of_all_its_captions(tmp_path: Path) -> None:
    write_parses(tmp_path, TEXTS)
    objects = frequent_objects(tmp_path, ["a", "b", "without captions"], 1)
    assert objects.words == ["animal", "cat", "dog", "grass", "puppy", "table"]
    shown = [[w for w, has in zip(objects.words, row.tolist(), strict=True) if has] for row in objects.present]
    assert shown == [["dog", "grass"], ["animal", "cat", "puppy", "table"], []]
    # of the dog's relatives, a puppy is a direct one and an animal is several steps above
    assert objects.absent[0].tolist() == [True, True, False, False, False, True]
    assert frequent_objects(tmp_path, ["a", "b"], 2).words == ["dog"]
    with pytest.raises(ValueError, match="objects must occur 9 times"):
        frequent_objects(tmp_path, ["a"], 9)


def made_world(images: int) -> tuple[torch.Tensor, torch.Tensor, Objects]:
    """Images whose feature k is 1 if object k is there, and one-hot words."""
    generator = torch.Generator().manual_seed(0)
    present = torch.rand(images, 6, generator=generator) < torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    return torch.eye(6), present.float(), Objects(list("abcdef"), present, ~present)


def test_the_classifier_learns_which_objects_an_image_shows_with_losses_as_before(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, features, objects = made_world(100)
    with losses_as_before("image_to_word", request), monkeypatch.context() as patch:
        patch.setattr(of_objects, "BATCH_SIZE", 32)
        train_classifier(words, features, objects, epochs=6)
    monkeypatch.setattr(of_objects, "LEARNING_RATE", 1.0)
    monkeypatch.setattr(of_objects, "DROPOUT", 0.2)
    classifier = train_classifier(words, features, objects, epochs=40)
    (found, _), _ = mean_average_precision(lambda x: classifier.scores(words, x), features, objects, 0)
    frequent = objects.present.sum(0).double()
    (baseline, (low, high)), images = mean_average_precision(
        lambda x: frequent.expand(len(x), -1), features, objects, 0
    )
    assert found > 96 > 90 > baseline and low < baseline < high and images <= 100
    pairs = classifier(words, features[:6])[:, 1]
    assert torch.allclose(pairs, classifier.scores(words, features[:6]).diagonal(), atol=1e-5)


def test_objects_that_are_neither_shown_nor_absent_do_not_count_and_ties_count_against() -> None:
    present = torch.tensor([[True, False, False]])
    scores = torch.tensor([[1.0, 2.0, 1.0]])
    excluded = Objects(["a", "b", "c"], present, torch.tensor([[False, False, True]]))
    mean, _ = mean_average_precision(lambda x: scores, torch.zeros(1, 1), excluded, 0)
    assert mean.value == 50.0  # only the tie with c is above; b would make it a third


def test_word_spans_are_where_the_tokens_are() -> None:
    for text, others in (
        ("Two dogs' owner says \"it isn't  RED\", ok.", ['"it', '",']),
        ("A man-made lake, isn't it?", []),
    ):
        written = [text[start:end].lower() for start, end in word_spans(text)]
        assert [w for w, token in zip(written, tokenize(text), strict=True) if w != token] == others


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


def shown_words(n: int) -> tuple[torch.Tensor, torch.Tensor, Blanks]:
    """Captions `<start> word k <end>` with k = 5 … 8 blanked, and only the image says which k it is."""
    kinds = torch.arange(n) % 4
    tokens = torch.stack([torch.ones(n), torch.full((n,), 4), 5 + kinds, torch.full((n,), 2)], 1).int().flatten()
    words = torch.cat([torch.zeros(4, 5), torch.eye(5)])
    starts = torch.arange(n + 1)
    blanks = Blanks(tokens, 4 * starts, torch.arange(n), starts, torch.full((n,), 2), kinds % 2)
    return words, torch.eye(4)[kinds], blanks


def test_blanks_are_filled_from_the_image_with_losses_as_before(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, features, blanks = shown_words(64)
    for name, value in {"HIDDEN": 16, "BATCH_SIZE": 24, "AT_ONCE": 24}.items():
        monkeypatch.setattr(of_blanks, name, value)
    with losses_as_before("blanks", request):
        train_filler(words, features, blanks, states=4, epochs=4)
    monkeypatch.setattr(of_blanks, "BATCH_SIZE", 32)
    monkeypatch.setattr(of_blanks, "LEARNING_RATE", 0.01)
    choices = torch.arange(4, 9)
    found = {}
    for image, epochs in ((False, 20), (True, 60)):
        filler = train_filler(words, features, blanks, epochs=epochs, states=4, image=image)
        found[image] = recalls(blank_ranks(filler, features, blanks, choices), blanks.kind)
    assert found[True]["both"]["R@1"] == found[True]["noun"]["R@1"] == 100
    assert found[False]["both"]["R@1"] <= 50
    changed = blanks._replace(tokens=torch.where(blanks.tokens == 5, 6, blanks.tokens))  # the blanked words
    every = torch.arange(64)
    with torch.inference_mode():
        assert torch.equal(*(filler(one, every, every, every, features) for one in (blanks, changed)))


def test_the_learned_part_of_word_vectors() -> None:
    generator = torch.Generator().manual_seed(0)
    two = TwoPartEmbedding(6, 3, 2, generator, None)
    assert torch.equal(learned_vectors(two), two.learned.weight)
    assert learned_vectors(word_embedding(6, 3, generator, None, True)).shape == (6, 3)
    with pytest.raises(ValueError, match="must have a table of word vectors, has: Linear"):
        learned_vectors(torch.nn.Linear(2, 2))
