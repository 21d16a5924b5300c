"""Scores of sentences by language models, made here with random weights and loaded from disk as a user's are."""

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    T5Config,
)

import negcap
from negcap.pipelines.cli import main
from negcap.pipelines.models import scorer
from negcap.pipelines.models.scorer import LanguageModelScorer, check_scorer, load_scorer

TEXTS = [
    "A dog sleeps on a red couch.",
    "Two men ride horses on a beach.",
    "The woman is unbelievably tall!",
    "A dog",
    "dog",
]
BERT_SPECIAL = {name: f"[{name[:-6].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token")}
BERT_SPECIAL["mask_token"] = "[MASK]"


def causal_model(folder: Path, seed: int = 0, **special: str) -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """Save a GPT-2 of two layers and its byte-level tokenizer with these special tokens; returns both."""
    names = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġa", "Ġo", "Ġt", "Ġth", "he"]
    merges = [("Ġ", "a"), ("Ġ", "o"), ("Ġ", "t"), ("Ġt", "h"), ("h", "e")]
    learned = Tokenizer(models.BPE(vocab={name: number for number, name in enumerate(names)}, merges=merges))
    learned.add_special_tokens(["<s>", "</s>"])
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned, **special)
    torch.manual_seed(seed)
    sizes = dict(vocab_size=len(tokenizer), n_positions=40, n_embd=32, n_layer=2, n_head=2, initializer_range=0.5)
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=1)).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def masked_model(folder: Path, **special: str) -> tuple[BertForMaskedLM, PreTrainedTokenizerFast]:
    """Save a BERT of two layers and its WordPiece tokenizer, whose vocabulary is small; returns both."""
    special = special or BERT_SPECIAL
    letters = sorted(set("".join(TEXTS)) - {" "})
    names = [*BERT_SPECIAL.values(), *letters, *(f"##{letter}" for letter in letters), "dog", "men", "##ps", "##in"]
    learned = Tokenizer(models.WordPiece({name: number for number, name in enumerate(names)}, unk_token="[UNK]"))
    learned.add_special_tokens(list(BERT_SPECIAL.values()))
    learned.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, learned.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    learned.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned, **special)
    torch.manual_seed(0)
    model = BertForMaskedLM(bert_config(len(tokenizer))).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def bert_config(words: int) -> BertConfig:
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    return BertConfig(vocab_size=words, max_position_embeddings=40, initializer_range=0.5, **sizes)


@torch.no_grad()
def log_p(model: Any, ids: list[int], place: int, token: int) -> float:
    """log p(token) at a place of one sequence, computed alone and in double precision."""
    logits = model.double()(input_ids=torch.tensor([ids])).logits[0, place]
    return float(torch.log_softmax(logits, -1)[token])


def causal_score(model: Any, tokenizer: Any, text: str, start: int, end: int | None) -> float:
    ids = [start, *tokenizer.encode(text, add_special_tokens=False), *([] if end is None else [end])]
    return sum(log_p(model, ids[:place], place - 1, ids[place]) for place in range(1, len(ids)))


def masked_score(model: Any, tokenizer: Any, text: str) -> float:
    """Each piece of a word is predicted with its later pieces hidden; `##` marks the pieces that continue a word."""
    ids = tokenizer.encode(text)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    total = 0.0
    for place in range(1, len(ids) - 1):
        hidden = ids.copy()
        hidden[place] = tokenizer.mask_token_id
        after = place + 1
        while pieces[after].startswith("##"):
            hidden[after] = tokenizer.mask_token_id
            after += 1
        total += log_p(model, hidden, place, ids[place])
    return total


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of a causal and a masked model."""
    folder = tmp_path_factory.mktemp("models")
    causal_model(folder / "causal", bos_token="<s>", eos_token="</s>")
    masked_model(folder / "masked")
    return {"causal": folder / "causal", "masked": folder / "masked"}


@pytest.mark.parametrize(
    ("special", "start", "end"),
    [({"bos_token": "<s>", "eos_token": "</s>"}, 0, 1), ({"eos_token": "</s>"}, 1, 1), ({"bos_token": "<s>"}, 0, None)],
    ids=["both", "end only", "start only"],
)
def test_a_causal_score_is_the_sum_over_tokens_given_those_before(
    special: dict[str, str], start: int, end: int | None, tmp_path: Path
) -> None:
    model, tokenizer = causal_model(tmp_path, **special)
    expected = [causal_score(model, tokenizer, text, start, end) for text in TEXTS]
    scores = load_scorer(tmp_path).log_likelihoods(TEXTS)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, atol=6e-4)


def test_a_masked_score_is_the_sum_over_tokens_given_all_but_later_pieces_of_the_word(tmp_path: Path) -> None:
    model, tokenizer = masked_model(tmp_path)
    assert "##" in " ".join(tokenizer.tokenize("unbelievably"))
    expected = [masked_score(model, tokenizer, text) for text in TEXTS]
    np.testing.assert_allclose(load_scorer(tmp_path).log_likelihoods(TEXTS), expected, atol=6e-4)


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_a_score_does_not_depend_on_the_texts_beside_it(
    kind: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fresh() -> LanguageModelScorer:
        """The model loaded anew, with nothing remembered."""
        scorer._load.cache_clear()
        return load_scorer(folders[kind])

    monkeypatch.setitem(scorer.BATCH_TOKENS, "cpu", 30)
    texts = [f"{text} {more}".strip() for text in TEXTS for more in ("", "a dog")]
    together = fresh().log_likelihoods(texts)
    assert len(set(together)) == len(texts)
    assert fresh().log_likelihoods(texts[::-1]).tolist() == together[::-1].tolist()
    alone = fresh()
    assert [alone.log_likelihoods([text])[0] for text in texts] == together.tolist()
    assert alone.log_likelihoods([*texts, *texts]).tolist() == [*together, *together]
    assert alone.log_likelihoods([]).shape == (0,)


def test_a_model_is_loaded_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    causal_model(tmp_path, bos_token="<s>")
    first = load_scorer(tmp_path)
    assert load_scorer(tmp_path) is first
    causal_model(tmp_path, seed=1, bos_token="<s>")
    assert (load_scorer(tmp_path).log_likelihoods(TEXTS) != first.log_likelihoods(TEXTS)).all()


def test_loading_asks_no_network_and_runs_no_code_of_the_folder(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, lambda self, address: asked.append(address) or 1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *host, **more: asked.append(host) or [])
    copy = shutil.copytree(folders["causal"], tmp_path / "own")
    (copy / "own.py").write_text("raise SystemExit('was run')", "utf-8")
    changed(copy, auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"})
    assert load_scorer(copy).log_likelihoods(["A dog"])[0] < 0
    assert not asked


def changed(folder: Path, **values: object) -> None:
    """Change values of a model's config."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


def without(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink() for name in names] and None


FAULTS = {
    "no config": ("causal", without("config.json"), "must be a folder with config.json, .*spoilt has none"),
    "no tokenizer": (
        "masked",
        without("tokenizer.json"),
        "must be a folder with tokenizer.json or .*, .*spoilt has none",
    ),
    "no safetensors": (
        "causal",
        without("model.safetensors"),
        r"must be a folder with \*.safetensors, .*spoilt has none",
    ),
    "no known type": ("causal", lambda folder: changed(folder, model_type="x"), "the config in .* cannot be read: "),
    "T5": ("causal", lambda folder: T5Config(architectures=["T5"]).save_pretrained(folder), "was: T5 in "),
    "no start": ("causal", lambda folder: causal_model(folder), "must have a start or an end token .*, has none"),
    "no mask": ("masked", lambda folder: masked_model(folder, unk_token="[UNK]"), "fast one .* with a mask_token"),
}


@pytest.mark.parametrize(("kind", "spoil", "message"), FAULTS.values(), ids=FAULTS)
def test_a_folder_that_cannot_score_is_refused_before_its_weights_are_read(
    kind: str, spoil: Callable[[Path], object], message: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    copy = shutil.copytree(folders[kind], tmp_path / "spoilt")
    spoil(copy)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as found:
        check_scorer(copy)
    assert "\n" not in str(found.value)


def test_weights_that_do_not_fit_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    for name, message in (
        ("headless", "must be those of the whole model, lack: cls.predictions"),
        ("damaged", "the weights in .* cannot be read: "),
        ("larger", "the weights in .* cannot be read: "),
    ):
        copy = shutil.copytree(folders["masked"], tmp_path / name)
        if name == "headless":
            BertModel(bert_config(70)).save_pretrained(copy)
            changed(copy, architectures=["BertForMaskedLM"])
        elif name == "damaged":
            (copy / "model.safetensors").write_bytes(b"x" * 100)
        else:
            changed(copy, vocab_size=50)
        assert check_scorer(copy) == copy
        with pytest.raises(ValueError, match=message):
            load_scorer(copy)


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_a_build_scores_with_the_model_wherever_its_folder_lies(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    captions, run = tmp_path / "captions.csv", tmp_path / "run"
    captions.write_text("\n".join(["image,caption", *(f"{n}.jpg,{text}" for n, text in enumerate(TEXTS[:2]))]))
    build = ["build", str(captions), "--output", str(run), "--scheduler", "synchronous", "--quiet"]
    build += ["--set", "lexicon=reference"]
    assert main([*build, "--set", f"scorer={folders[kind]}"]) == 0
    made = negcap.read(run)
    model = load_scorer(folders[kind])
    expected = model.log_likelihoods(list(made.text)) - model.log_likelihoods(list(made.caption))
    assert len(made) > 3
    np.testing.assert_allclose(made.plausibility, expected, atol=1e-5)
    manifest = json.loads((run / "_manifests" / "negatives.json").read_bytes())
    assert manifest["identity"]["config"]["scorer"].startswith(f"{kind} sha256:")
    if kind == "causal":
        elsewhere = shutil.copytree(folders[kind], tmp_path / "elsewhere" / kind)
        assert main([*build, "--set", f"scorer={elsewhere}"]) == 0
        assert main([build[0], *build[2:7], "--only", "negatives"]) == 2


def test_an_augmenter_refuses_what_the_model_finds_implausible(folders: dict[str, Path]) -> None:
    model, folder = load_scorer(folders["causal"]), folders["causal"]
    every = negcap.Augmenter(n=60, scorer=folder)(TEXTS[:2])
    odds = [model.log_likelihoods(its) - model.log_likelihoods([text]) for text, its in zip(TEXTS, every, strict=False)]
    limit = float(np.median(np.concatenate(odds)))
    likely = negcap.Augmenter(n=60, scorer=folder, min_plausibility=limit)(TEXTS[:2])
    assert every == negcap.Augmenter(n=60)(TEXTS[:2])
    for text, negatives, kept in zip(TEXTS[:2], every, likely, strict=True):
        log_odds = model.log_likelihoods(negatives) - model.log_likelihoods([text])
        assert set(kept) == {negative for negative, odds in zip(negatives, log_odds, strict=True) if odds >= limit}
    assert 0 < sum(map(len, likely)) < sum(map(len, every))
