"""Tiny models with random weights, made by the tests in the forms in which people have theirs."""

import json
from pathlib import Path
from typing import Any

WORDS = "a the red green blue yellow black white kite boat lamp bench drum cart sled tent stands by river in".split()
SIDE = 24  # pixels


def open_clip(folder: Path) -> Any:
    """A model of OpenCLIP's architecture `tiny`, made known to it; its weights are in `tiny.pt`."""
    import open_clip
    import torch

    tower = {"width": 16, "layers": 1}
    about = {"embed_dim": 12, "vision_cfg": {**tower, "image_size": 16, "patch_size": 8, "head_width": 8},
             "text_cfg": {**tower, "context_length": 16, "vocab_size": 49408, "heads": 2}}  # fmt: skip
    (folder / "architectures").mkdir()
    (folder / "architectures" / "tiny.json").write_text(json.dumps(about))
    open_clip.add_model_config(folder / "architectures")
    torch.manual_seed(0)
    model = open_clip.create_model("tiny").eval()
    torch.save(model.state_dict(), folder / "tiny.pt")
    return model


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = {word: n for n, word in enumerate(["<pad>", "<unk>", "<start>", "<end>", *WORDS])}
    made = Tokenizer(models.WordLevel(words, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing("<start> $A <end>", None, [("<start>", 2), ("<end>", 3)])
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<start>", "eos_token": "<end>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=16, **special)


def clip(folder: Path, kind: str = "clip") -> Path:
    """A folder with a CLIP or SigLIP of transformers, as `save_pretrained` writes it."""
    import torch
    import transformers

    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**small, "vocab_size": 4 + len(WORDS), "max_position_embeddings": 16, "eos_token_id": 3, "pad_token_id": 0}
    vision = {**small, "image_size": SIDE, "patch_size": 8}
    parts = transformers.models
    if kind == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)
        transformers.CLIPModel(config).save_pretrained(folder)
        maker = parts.clip.image_processing_pil_clip.CLIPImageProcessorPil
    else:
        config = transformers.SiglipConfig(text_config={**text, "projection_size": 16}, vision_config=vision)
        transformers.SiglipModel(config).save_pretrained(folder)
        maker = parts.siglip.image_processing_pil_siglip.SiglipImageProcessorPil
    maker(size={"height": SIDE, "width": SIDE}, crop_size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
