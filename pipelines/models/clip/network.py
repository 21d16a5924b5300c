"""A CLIP of transformers with its tokenizer and image processor: from a folder, or a tiny random one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from negcap.pipelines.models.clip.config import ClipConfig
from negcap.pipelines.models.contrastive import MOST, SIGLIP_BIAS
from negcap.pipelines.models.scorer import reading
from negcap.pipelines.models.similarities import unit

NEEDED = 'training a CLIP needs PyTorch, transformers and Pillow: pip install "negcap[score]"'
SPECIAL = ("<pad>", "<unk>", "<start>", "<end>")
LONGEST = 40  # tokens of a text of the tiny CLIP
MEAN, STD = (0.5,) * 3, (0.5,) * 3  # of its pictures


class Parts(NamedTuple):
    """A CLIP, its tokenizer and its image processor, objects of transformers."""

    clip: Any
    tokenizer: Any
    processor: Any


class Clip(nn.Module):
    """A CLIP with what contrastive losses learn beside it: SigLIP's bias, and CE-CLIP's thresholds (families,)."""

    clip: Any

    def __init__(self, clip: nn.Module, config: ClipConfig) -> None:
        super().__init__()
        self.clip = clip
        siglip = config.objective == "siglip"
        self.bias = nn.Parameter(torch.tensor(SIGLIP_BIAS if siglip else 0.0), requires_grad=siglip)
        self.thresholds = nn.Parameter(torch.zeros(len(config.negative_families)), requires_grad=False)

    @property
    def scale(self) -> Tensor:
        """The learned scale of the cosine, 1/τ, at most 100."""
        return self.clip.logit_scale.exp().clamp(max=MOST)

    def images(self, pixels: Tensor) -> Tensor:
        """Unit vectors (B, d) of pictures (B, 3, height, width), normalised as the image processor does."""
        return unit(_pooled(self.clip.get_image_features(pixel_values=pixels)))

    def texts(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors (B, d) of texts: token ids (B, T) and their mask (B, T), 1 for a token, 0 for padding."""
        return unit(_pooled(self.clip.get_text_features(input_ids=ids, attention_mask=mask)))


def _pooled(found: Any) -> Tensor:
    return found if isinstance(found, Tensor) else found.pooler_output


def load(folder: Path) -> Parts:
    """A CLIP from a folder of Hugging Face; code in it is never run.

    Raises FileNotFoundError for a folder without a model, ValueError for one that cannot be read or is no CLIP,
    ImportError if a library is missing.
    """
    transformers = _library()
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        raise FileNotFoundError(f"weights must be a folder with config.json and *.safetensors, {folder} has none")
    with reading(folder, "model"):
        clip = transformers.AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        processor = transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True, use_fast=False)
    if not hasattr(clip, "get_text_features") or not hasattr(clip, "logit_scale"):
        raise ValueError(f"weights must be those of a CLIP, {folder} has a {type(clip).__name__}")
    return Parts(clip.float(), tokenizer, processor)


def tiny(config: ClipConfig, words: Sequence[str]) -> Parts:
    """A CLIP with random weights from the config's seed, that knows `words`, and small pictures.

    Raises ImportError if a library is missing.
    """
    transformers = _library()
    torch.manual_seed(config.seed)
    tokens = {word: number for number, word in enumerate((*SPECIAL, *words))}
    both = {
        "hidden_size": config.width,
        "intermediate_size": 4 * config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "projection_dim": config.width,
    }
    text = {"vocab_size": len(tokens), "max_position_embeddings": LONGEST, "pad_token_id": 0}
    text |= {"bos_token_id": tokens["<start>"], "eos_token_id": tokens["<end>"]}
    vision = {"image_size": config.size, "patch_size": config.patch}
    clip = transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config={**both, **text}, vision_config={**both, **vision}, projection_dim=config.width
        )
    )
    processor = transformers.CLIPImageProcessorPil(
        size={"height": config.size, "width": config.size},
        do_center_crop=False,
        image_mean=MEAN,
        image_std=STD,
    )
    return Parts(clip, _tokenizer(transformers, tokens), processor)


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
