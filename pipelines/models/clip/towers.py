"""The models that are trained: a CLIP of transformers or of OpenCLIP, with the parameters that losses learn.

Both kinds have the same methods: `pixels` and `tokens` make what the model reads of pictures and texts, `images` and
`texts` make unit vectors of these, and `save` writes a folder that the kind's own library reads.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..losses import ContrastiveHead
from ..settings import ClipConfig
from ..similarities import unit_vectors
from . import pretrained

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import PreTrainedTokenizerFast
    from transformers.modeling_outputs import BaseModelOutputWithPooling

SPECIAL = ("<pad>", "<unk>", "<start>", "<end>")
TOKENIZER_FILES = (".json", ".txt", ".model")  # in a saved folder
FILLED = ("siglip",)  # models trained on texts that are padded to the greatest length
UNLIMITED = 512  # tokens of a text that are read where neither the model nor its tokenizer sets a limit
LONGEST = 40  # tokens of a text of the tiny CLIP
TOGETHER = 64  # texts that are read at a time
MEAN = (0.5,) * 3  # of each colour, which the tiny CLIP subtracts from pictures
STD = (0.5,) * 3  # by which it then divides


class _Clip(ContrastiveHead):
    """A CLIP of any library, which has its own temperature."""

    clip: Any

    @property
    def log_scale(self) -> Tensor:  # type: ignore[override]
        """The learned log(1/τ)."""
        return self.clip.logit_scale


class HuggingFace(_Clip):
    """A CLIP of transformers, with its tokenizer and image processor."""

    def __init__(self, loaded: pretrained.Loaded) -> None:
        """Take over a loaded model, and find out how its tokenizer pads texts and what it makes of unknown words."""
        super().__init__()
        self.clip, self.processor, self.tokenizer = loaded
        tokenizer = self.tokenizer
        tokenizer.padding_side = "right"  # `texts` cuts columns off
        limit = getattr(self.clip.config.get_text_config(), "max_position_embeddings", None) or UNLIMITED
        self.longest = min(tokenizer.model_max_length, limit)
        self.padding = tokenizer.pad_token_id or 0
        self.filled = self.clip.config.model_type.startswith(FILLED)
        # The token of unknown words. CLIP's tokenizer and others know all texts, and name another special token instead
        unknown = tokenizer.unk_token_id
        special = (tokenizer.eos_token_id, tokenizer.pad_token_id)
        self.unknown: int | None = None if unknown in special else unknown
        # CLIP's own tokenizer pads with the end token, and its model needs no mask
        self.masked = self.padding != tokenizer.eos_token_id and not self.filled

    def pixels(self, images: Sequence[Image]) -> np.ndarray:
        """Pictures as the image processor makes them, (n, 3, height, width).

        Raises ValueError if it cuts them into patches of its own, as that of SigLIP 2 NaFlex does.
        """
        inputs = self.processor(images=list(images), return_tensors="np")
        if "spatial_shapes" in inputs:
            raise ValueError("model must take whole pictures, not patches of pictures of any shape (NaFlex)")
        return inputs["pixel_values"]

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """The token ids of texts (n, T), filled up with the tokenizer's padding."""
        encoded = self.tokenizer(
            list(texts),
            padding="max_length" if self.filled else True,
            truncation=True,
            max_length=self.longest,
            return_tensors="np",
        )
        return torch.from_numpy(encoded["input_ids"])

    def images(self, pixels: Tensor) -> Tensor:
        """Unit vectors (B, d) of pixels."""
        return unit_vectors(_pooled(self.clip.get_image_features(pixel_values=pixels)))

    def texts(self, ids: Tensor) -> Tensor:
        """Unit vectors (B, d) of token ids (B, T). Texts of like length are read together: padding costs little."""
        lengths = (ids != self.padding).sum(1)
        order = lengths.argsort(stable=True)
        parts = []
        for rows in order.split(TOGETHER):
            # The last row is the longest. One more column, as some tokenizers pad with the end token, which texts need
            longest = ids.shape[1] if self.filled else int(lengths[rows[-1]]) + 1
            part_ids = ids[rows, :longest]
            mask = part_ids != self.padding if self.masked else torch.ones_like(part_ids)
            parts.append(_pooled(self.clip.get_text_features(input_ids=part_ids, attention_mask=mask.long())))
        original_order = order.argsort()
        return unit_vectors(torch.cat(parts)[original_order])

    def save(self, folder: Path) -> None:
        """Write what transformers' `from_pretrained` reads."""
        for part in (self.clip, self.tokenizer, self.processor):
            part.save_pretrained(folder)


def _pooled(output: Tensor | BaseModelOutputWithPooling) -> Tensor:
    """The vectors of images or texts, which some versions of transformers return in an object with others."""
    if isinstance(output, Tensor):
        return output
    assert output.pooler_output is not None
    return output.pooler_output


def tiny(config: ClipConfig, words: Sequence[str]) -> HuggingFace:
    """A CLIP with random weights from the config's seed, that knows `words`, and small pictures."""
    import transformers

    torch.manual_seed(config.seed)
    tokens = {word: number for number, word in enumerate((*SPECIAL, *words))}

    def sizes(width: int) -> dict[str, int]:
        """The settings that both transformers have, as transformers names them; width: of the transformer."""
        return {
            "hidden_size": width,
            "intermediate_size": 4 * width,
            "projection_dim": config.width,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
        }

    text = {
        **sizes(config.width // 2),
        "vocab_size": len(tokens),
        "max_position_embeddings": LONGEST,
        "pad_token_id": tokens["<pad>"],
        "bos_token_id": tokens["<start>"],
        "eos_token_id": tokens["<end>"],
    }
    vision = {**sizes(config.width), "image_size": config.size, "patch_size": config.patch}
    clip_config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=config.width)
    processor = transformers.CLIPImageProcessorPil(
        size={"height": config.size, "width": config.size}, do_center_crop=False, image_mean=MEAN, image_std=STD
    )
    return HuggingFace(pretrained.Loaded(transformers.CLIPModel(clip_config), processor, _tokenizer(tokens)))


def _tokenizer(tokens: dict[str, int]) -> PreTrainedTokenizerFast:
    """A tokenizer of lower-case words and punctuation that puts a start and an end token around a text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(tokens, unk_token="<unk>"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, tokens[name]) for name in ("<start>", "<end>")]
    words.post_processor = processors.TemplateProcessing(single="<start> $A <end>", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_max_length=LONGEST,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<start>",
        eos_token="<end>",
    )


class OpenClip(_Clip):
    """A CLIP of OpenCLIP, with its tokenizer and image transform."""

    def __init__(self, name: str) -> None:
        """Load `ARCHITECTURE:WEIGHTS` or `FOLDER`. Raises FileNotFoundError for missing files, ValueError for damaged
        ones or an unknown architecture, ImportError if open_clip cannot be imported.
        """
        super().__init__()
        self.unknown: int | None = None
        self.located = pretrained.locate_open_clip(name)
        self.clip, self.transform, self.tokenizer = pretrained.read_open_clip(self.located)

    def pixels(self, images: Sequence[Image]) -> np.ndarray:
        """Pictures (PIL) as the model's transform makes them, (n, 3, height, width)."""
        return torch.stack([self.transform(image) for image in images]).numpy()

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """The token ids of texts (n, T), T the model's context length."""
        return self.tokenizer(list(texts))

    def images(self, pixels: Tensor) -> Tensor:
        """Unit vectors (B, d) of pixels."""
        return unit_vectors(self.clip.encode_image(pixels))

    def texts(self, ids: Tensor) -> Tensor:
        """Unit vectors (B, d) of token ids (B, T)."""
        return unit_vectors(self.clip.encode_text(ids))

    def save(self, folder: Path) -> None:
        """Write what OpenCLIP reads as `local-dir:FOLDER`: its config, weights, and the tokenizer's files if any."""
        import open_clip
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        if self.located.architecture.startswith(pretrained.LOCAL):
            for file in self.located.weights.iterdir():
                if file.suffix in TOKENIZER_FILES:
                    shutil.copyfile(file, folder / file.name)
        else:
            model_config = open_clip.get_model_config(self.located.architecture)
            if self.located.settings.get("force_quick_gelu"):
                model_config["quick_gelu"] = True
            about = {"model_cfg": model_config, "preprocess_cfg": open_clip.get_model_preprocess_cfg(self.clip)}
            (folder / pretrained.CONFIG).write_text(json.dumps(about, indent=1) + "\n", "utf-8")
        state = {name: value.detach().cpu().contiguous().clone() for name, value in self.clip.state_dict().items()}
        save_file(state, folder / pretrained.WEIGHTS)


Towers = HuggingFace | OpenClip


def towers(config: ClipConfig, words: Sequence[str]) -> Towers:
    """The CLIP that a config names: one from local files, or a tiny random one that knows `words`. Raises
    FileNotFoundError for missing files, ValueError for ones that cannot be read or are no CLIP, ImportError if a
    library is missing.
    """
    library, _, name = config.model.partition(":")  # "hf:openai/clip-vit-base-patch32"
    if library == "open_clip":
        model: Towers = OpenClip(name)
    else:
        pretrained.require_hugging_face()
        from transformers.utils import logging

        logging.disable_progress_bar()
        folder = pretrained.locate_hugging_face(name) if name else None
        model = HuggingFace(pretrained.read_hugging_face(folder)) if folder else tiny(config, words)
        if not hasattr(model.clip, "logit_scale"):
            raise ValueError(f"model must be a CLIP, {name} has a {type(model.clip).__name__}")
    model.add_loss_parameters(config.objective, len(config.negative_families))
    return model
