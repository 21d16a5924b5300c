"""What is trained: a CLIP of transformers or of OpenCLIP, and what losses learn beside it.

Both kinds have the same methods: `pixels` and `tokens` make what the model reads of pictures and texts, `images` and
`texts` make vectors of these, `save` writes a folder that the kind's own library reads, and `log_scale` is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..losses import MOST, SIGLIP_BIAS
from ..scorer import reading
from ..similarities import unit
from .config import ClipConfig
from .open_clip import OpenClip

NEEDED = 'training a CLIP needs PyTorch, transformers and Pillow: pip install "negcap[score]"'
SPECIAL = ("<pad>", "<unk>", "<start>", "<end>")
LONGEST = 40  # tokens of a text of the tiny CLIP
TOGETHER = 64  # texts that are read at a time
MEAN, STD = (0.5,) * 3, (0.5,) * 3  # of its pictures


class HuggingFace(nn.Module):
    """A CLIP of transformers, with its tokenizer and image processor."""

    clip: Any

    def __init__(self, clip: nn.Module, tokenizer: Any, processor: Any) -> None:
        super().__init__()
        self.clip, self.tokenizer, self.processor = clip, tokenizer, processor
        tokenizer.padding_side = "right"  # `texts` cuts columns off
        limit = getattr(self.clip.config.get_text_config(), "max_position_embeddings", LONGEST)
        self.longest = min(tokenizer.model_max_length, limit)
        self.padding = tokenizer.pad_token_id or 0
        # CLIP's own tokenizer fills up with the end token, which its mask does not need
        self.masked = self.padding != tokenizer.eos_token_id

    @property
    def log_scale(self) -> Tensor:
        """The learned log(1/τ)."""
        return self.clip.logit_scale

    def pixels(self, images: Sequence[Any]) -> np.ndarray:
        """Pictures (PIL) as the image processor makes them, (n, 3, height, width)."""
        return self.processor(images=list(images), return_tensors="np")["pixel_values"]

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """The token ids of texts (n, T), filled up with the tokenizer's padding."""
        settings: dict[str, Any] = {"padding": True, "truncation": True, "max_length": self.longest}
        return torch.from_numpy(self.tokenizer(list(texts), **settings, return_tensors="np")["input_ids"])

    def images(self, pixels: Tensor) -> Tensor:
        """Vectors (B, d) of pixels."""
        return _pooled(self.clip.get_image_features(pixel_values=pixels))

    def texts(self, ids: Tensor) -> Tensor:
        """Vectors (B, d) of token ids (B, T). Texts of like length are read together: padding costs little."""
        lengths = (ids != self.padding).sum(1)
        order = lengths.argsort(stable=True)
        parts = [self._texts(ids[part], int(lengths[part[-1]])) for part in order.split(TOGETHER)]
        return torch.cat(parts)[order.argsort()]

    def _texts(self, ids: Tensor, longest: int) -> Tensor:
        ids = ids[:, : longest + 1]  # with the end token if it is the padding
        mask = ids != self.padding if self.masked else torch.ones_like(ids)
        return _pooled(self.clip.get_text_features(input_ids=ids, attention_mask=mask.long()))

    def save(self, folder: Path) -> None:
        """Write what transformers' `from_pretrained` reads."""
        for part in (self.clip, self.tokenizer, self.processor):
            part.save_pretrained(folder)


def _pooled(found: Any) -> Tensor:
    return found if isinstance(found, Tensor) else found.pooler_output


def load(folder: Path) -> HuggingFace:
    """A CLIP from a folder of Hugging Face; code in it is never run.

    Raises FileNotFoundError for a folder without a model, ValueError for one that cannot be read or is no CLIP,
    ImportError if a library is missing.
    """
    transformers = _library()
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        raise FileNotFoundError(f"model must be a folder with config.json and *.safetensors, {folder} has none")
    with reading(folder, "model"):
        clip = transformers.AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        processor = transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True, use_fast=False)
    if not hasattr(clip, "get_text_features") or not hasattr(clip, "logit_scale"):
        raise ValueError(f"model must be a CLIP, {folder} has a {type(clip).__name__}")
    return HuggingFace(clip.float(), tokenizer, processor)


def tiny(config: ClipConfig, words: Sequence[str]) -> HuggingFace:
    """A CLIP with random weights from the config's seed, that knows `words`, and small pictures.

    Raises ImportError if a library is missing.
    """
    transformers = _library()
    torch.manual_seed(config.seed)
    tokens = {word: number for number, word in enumerate((*SPECIAL, *words))}
    text = {"vocab_size": len(tokens), "max_position_embeddings": LONGEST, "pad_token_id": 0}
    text |= {"bos_token_id": tokens["<start>"], "eos_token_id": tokens["<end>"]}
    vision = {"image_size": config.size, "patch_size": config.patch}
    for part, width in ((text, config.width // 2), (vision, config.width)):
        part |= {"hidden_size": width, "intermediate_size": 4 * width, "projection_dim": config.width}
        part |= {"num_hidden_layers": config.layers, "num_attention_heads": config.heads}
    clip = transformers.CLIPModel(
        transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=config.width)
    )
    processor = transformers.CLIPImageProcessorPil(
        size={"height": config.size, "width": config.size},
        do_center_crop=False,
        image_mean=MEAN,
        image_std=STD,
    )
    return HuggingFace(clip, _tokenizer(transformers, tokens), processor)


def _tokenizer(transformers: Any, tokens: dict[str, int]) -> Any:
    """A tokenizer of lower-case words and punctuation that puts a start and an end token around a text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = Tokenizer(models.WordLevel(tokens, unk_token="<unk>"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, tokens[name]) for name in ("<start>", "<end>")]
    words.post_processor = processors.TemplateProcessing(single="<start> $A <end>", special_tokens=ends)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_max_length=LONGEST,
        **dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), SPECIAL, strict=True)),
    )


def _library() -> Any:
    try:
        import transformers
        from PIL import Image  # noqa: F401
        from transformers.utils import logging
    except ImportError as error:
        raise ImportError(NEEDED) from error
    logging.disable_progress_bar()
    return transformers


Towers = HuggingFace | OpenClip


class Clip(nn.Module):
    """A CLIP with what contrastive losses learn beside it: SigLIP's bias, and CE-CLIP's thresholds (families,)."""

    def __init__(self, towers: Towers, config: ClipConfig) -> None:
        super().__init__()
        self.towers = towers
        siglip = config.objective == "siglip"
        self.bias = nn.Parameter(torch.tensor(SIGLIP_BIAS if siglip else 0.0), requires_grad=siglip)
        self.thresholds = nn.Parameter(torch.zeros(len(config.negative_families)), requires_grad=False)

    @property
    def scale(self) -> Tensor:
        """The learned scale of the cosine, 1/τ, at most 100."""
        return self.towers.log_scale.exp().clamp(max=MOST)

    def images(self, pixels: Tensor) -> Tensor:
        """Unit vectors (B, d) of pixels (B, 3, height, width)."""
        return unit(self.towers.images(pixels))

    def texts(self, ids: Tensor) -> Tensor:
        """Unit vectors (B, d) of token ids (B, T)."""
        return unit(self.towers.texts(ids))


def towers(config: ClipConfig, words: Sequence[str]) -> Towers:
    """The CLIP that a config names: one from local files, or a tiny random one that knows `words`.

    Raises FileNotFoundError for files that are not there, ValueError for ones that cannot be read or are no CLIP,
    ImportError if a library is missing.
    """
    kind, _, rest = config.model.partition(":")
    if kind == "open_clip":
        return OpenClip(rest)
    return load(Path(rest)) if config.model else tiny(config, words)
