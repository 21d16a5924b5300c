"""The log-likelihood of texts under any causal or masked language model of Hugging Face, from a local folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..engine.errors import require_libraries
from ..readers.files import first_line

if TYPE_CHECKING:
    import torch


NEEDED = 'a scorer needs PyTorch, transformers and safetensors: pip install "negcap[scorer]"'
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json")
CAUSAL, MASKED = "causal", "masked"
IGNORED = -1  # the label of a position whose token is not scored
BATCH_TOKENS = {"cpu": 128, "cuda": 4096}
MAX_TOKENS = 4096  # of a text, also where the model sets no limit
DECIMALS = 3
KEPT = 200_000  # texts whose scores are remembered, about 30 MB


class Parts(NamedTuple):
    """A language model without its weights. kind: CAUSAL or MASKED; config, tokenizer: objects of transformers."""

    kind: str
    config: Any
    tokenizer: Any


class Query(NamedTuple):
    """One row of a model's input. ids: tokens; labels: at each position the token whose log p is wanted, or IGNORED."""

    ids: Sequence[int]
    labels: Sequence[int]


class LanguageModelScorer:
    """A language model with its tokenizer, as a SentenceScorer (see negcap.augment.plausibility).

    A score depends on the text and the model only: a batch holds rows of one length, which need no padding, and always
    as many of them (filled up by repetition), since matrix products of another shape round differently. Scores are
    rounded to 0.001 nats, as float32 sums of other machines differ by about 0.00001.
    """

    def __init__(self, parts: Parts, model: torch.nn.Module) -> None:
        self.kind, self.config, self.tokenizer = parts
        self.model = model
        self._device = next(model.parameters()).device
        self._known: dict[str, float] = {}
        self._lock = Lock()

    def log_likelihoods(self, texts: Sequence[str]) -> np.ndarray:
        """The log-likelihood of texts in nats, (texts,) float64, of as many tokens as are read. Fastest for many."""
        with self._lock:
            if len(self._known) > KEPT:
                self._known.clear()
            new = [text for text in dict.fromkeys(texts) if text not in self._known]
            if new:
                self._known.update(zip(new, self._score(new).tolist(), strict=True))
            return np.array([self._known[text] for text in texts], np.float64)

    def _score(self, texts: list[str]) -> np.ndarray:
        # RoBERTa counts two positions that no token of a text has
        positions = getattr(self.config, "max_position_embeddings", None) or MAX_TOKENS + 2
        limit = int(min(self.tokenizer.model_max_length, positions - 2, MAX_TOKENS))
        of_texts = (causal_queries if self.kind == CAUSAL else masked_queries)(self.tokenizer, texts, limit)
        owned = [(owner, query) for owner, queries in enumerate(of_texts) for query in queries if query.ids]
        owners, queries = np.array([owner for owner, _ in owned], int), [query for _, query in owned]
        scores, lengths = np.zeros(len(queries)), np.array([len(query.ids) for query in queries], int)
        for length in np.unique(lengths).tolist():
            rows, size = np.flatnonzero(lengths == length), max(1, BATCH_TOKENS[self._device.type] // length)
            for batch in np.split(rows, range(size, len(rows), size)):
                scores[batch] = self._forward([queries[row] for row in batch], size)[: len(batch)]
        return np.round(np.bincount(owners, scores, minlength=len(texts)), DECIMALS)

    def _forward(self, batch: Sequence[Query], size: int) -> np.ndarray:
        """The sums of log p over the labelled positions of each query, (size,) float64; the first fills a batch up."""
        import torch

        rows = [*batch, *[batch[0]] * (size - len(batch))]
        ids = torch.tensor([row.ids for row in rows], device=self._device)
        labels = torch.tensor([row.labels for row in rows], device=self._device)
        wanted = labels != IGNORED
        with torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            log_p = torch.log_softmax(logits[wanted].float(), dim=-1).gather(1, labels[wanted][:, None])[:, 0]
            sums = torch.zeros(wanted.shape, dtype=torch.float64, device=ids.device)
            sums[wanted] = log_p.double()
            return sums.sum(1).cpu().numpy()


def causal_queries(tokenizer: Any, texts: list[str], limit: int) -> list[list[Query]]:
    """One query for each text: log p(text) = sum over i of log p(token i | tokens before i); limit: of its tokens.
    Before the first token stands the start token of the tokenizer, or its end token if it has no other; after the last,
    the end token is scored too, if there is one.
    """
    end = tokenizer.eos_token_id
    start = end if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    queries = []
    for tokens in tokenizer(texts, add_special_tokens=False, truncation=True, max_length=limit)["input_ids"]:
        labels = [*tokens, *([] if end is None else [end])][:limit]
        queries.append([Query([start, *tokens][: len(labels)], labels)])
    return queries


def masked_queries(tokenizer: Any, texts: list[str], limit: int) -> list[list[Query]]:
    """For each text, one query of at most `limit` tokens per token: the pseudo-log-likelihood is the sum of log p(token
    | rest). That of Salazar et al. (2020), equation 1, as changed by Kauf and Ivanova (2023), PLL-word-l2r: while a
    token of a word is predicted, the later tokens of the word are masked too, because they would give it away.
    """
    encoded = tokenizer(texts, truncation=True, max_length=limit)
    queries = []
    for row, ids in enumerate(encoded["input_ids"]):
        words = np.array([-1 if word is None else word for word in encoded.word_ids(row)])
        made, tokens = [], np.array(ids)
        for place in np.flatnonzero(words >= 0):  # not the special tokens, such as [CLS]
            hidden = (words == words[place]) & (np.arange(len(ids)) >= place)
            labels = np.where(np.arange(len(ids)) == place, tokens, IGNORED)
            made.append(Query(np.where(hidden, tokenizer.mask_token_id, tokens).tolist(), labels.tolist()))
        queries.append(made)
    return queries


def load_scorer(path: Path, device: str | None = None) -> LanguageModelScorer:
    """The scorer for a model folder, in float32; loaded once per process, and again if the folder has changed. device:
    cpu, cuda, or auto (also None). Raises as `check_scorer`, and ValueError for unreadable or incomplete weights.
    """
    files = sorted(path.iterdir()) if path.is_dir() else []
    return _load(path, device or "auto", tuple((file.name, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=1)
def _load(path: Path, device: str, files: tuple[tuple[str, int], ...]) -> LanguageModelScorer:
    """See `load_scorer`. files: names and times of modification."""
    parts = read_parts(path)
    import transformers

    from .device import choose_device

    type: Any = transformers.AutoModelForCausalLM if parts.kind == CAUSAL else transformers.AutoModelForMaskedLM
    place = choose_device(device)
    local = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
    with reading(path, "weights"):
        model, found = type.from_pretrained(path, config=parts.config, output_loading_info=True, **local)
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"the weights in {path} must be those of the whole model, lack: {', '.join(missing[:3])}")
    model.config.use_cache = False
    return LanguageModelScorer(parts, model.float().eval().to(place))


def check_scorer(path: Path) -> Path:
    """The absolute path of a model folder, checked without reading the weights. Raises FileNotFoundError for a missing
    file, ValueError for a model neither causal nor masked or an unsuitable tokenizer, ImportError without a library.
    """
    read_parts(path)
    return path.absolute()


def read_parts(path: Path) -> Parts:
    """The config and the tokenizer in a model folder; raises as `check_scorer`. Code in the folder is never run."""
    if not path.is_dir():
        raise FileNotFoundError(f"scorer must be a folder with a language model, was: {path}")
    require_files("scorer", path, ("config.json",), TOKENIZERS, ("*.safetensors",))
    require_libraries(NEEDED, "safetensors", "torch", "transformers")
    import transformers

    with reading(path, "config"):
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    kind = _kind(path, config)
    with reading(path, "tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    if kind == CAUSAL and tokenizer.bos_token_id is None and tokenizer.eos_token_id is None:
        raise ValueError(f"the tokenizer in {path} must have a start or an end token (bos_token, eos_token), has none")
    if kind == MASKED and (tokenizer.mask_token_id is None or not tokenizer.is_fast):
        raise ValueError(f"the tokenizer in {path} must be a fast one (tokenizer.json) with a mask_token")
    return Parts(kind, config, tokenizer)


def _kind(path: Path, config: Any) -> str:
    """CAUSAL or MASKED, by the architecture that the config names, or else by what there is for its type of model."""
    import transformers

    named = config.architectures
    kinds = {MASKED: transformers.MODEL_FOR_MASKED_LM_MAPPING, CAUSAL: transformers.MODEL_FOR_CAUSAL_LM_MAPPING}
    for kind, models in kinds.items():
        if type(config) in models and not getattr(config, "is_encoder_decoder", False):
            classes = models[type(config)]
            classes = classes if isinstance(classes, tuple) else (classes,)
            if not named or {known.__name__ for known in classes if known} & set(named):
                return kind
    what = ", ".join(named or [config.model_type])
    raise ValueError(f"scorer must be a causal or a masked language model, was: {what} in {path}")


def require_files(kind: str, folder: Path, *patterns: tuple[str, ...]) -> None:
    """Raise FileNotFoundError if a folder lacks a file of one of these alternatives."""
    for names in patterns:
        if not any(file for name in names for file in folder.glob(name)):
            shown = " or ".join(name.removeprefix("**/") for name in names)
            raise FileNotFoundError(f"{kind} must be a folder with {shown}, {folder} has none")


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Silence transformers while it reads a part of a folder; errors become a ValueError that names both."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except Exception as error:  # of many types, by the library that reads the file
        raise ValueError(f"the {what} in {path} cannot be read: {first_line(error)}") from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
