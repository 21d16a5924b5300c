"""Models that map images and texts to vectors: of transformers, OpenCLIP, sentence-transformers, or in ONNX.

A kind of model is one function here, from what stands after `kind:` in a model's name to an Encoder. Each checks the
files, and raises FileNotFoundError or ValueError for what is no such model, ImportError if a library is missing. Models
are read from local files, code in them is never run, and a model is loaded when the first vector is asked for: not if
all of them are kept in the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..engine.manifest import hash_path
from ..engine.storage import sha256_file
from ..features.photos import PROVIDERS
from ..features.preprocess import open_images
from ..models.clip import pretrained
from ..models.scorer import reading
from ..readers.files import first_line
from .test_set import ScoreConfig

Images = Callable[[Sequence[Path]], np.ndarray]  # the vectors (n, d) of n image files
Texts = Callable[[Sequence[str]], np.ndarray]  # the vectors (n, d) of n texts


class Encoder(NamedTuple):
    """A model whose score of a pair is the cosine of its vectors.

    name: for tables. identity: plain JSON that determines the vectors (hashes of the model's files, the precision).
    images, texts: compute vectors; they raise ValueError for a model that cannot be read.
    """

    name: str
    identity: Mapping[str, str]
    images: Images
    texts: Texts

    @classmethod
    def loaded(cls, name: str, identity: Mapping[str, str], load: Callable[[], tuple[Images, Texts]]) -> Encoder:
        """A model that is loaded when its first vector is asked for."""
        once = cache(load)
        return cls(name, identity, lambda files: once()[0](files), lambda texts: once()[1](texts))


class Torch(NamedTuple):
    """Where PyTorch computes (a torch.device), and in what precision."""

    device: Any
    precision: str

    @classmethod
    def of(cls, config: ScoreConfig) -> Torch:
        """As a config says. Raises ValueError for cuda without a GPU."""
        import torch

        from ..models.device import choose_device

        device = choose_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        default = "bfloat16" if device.type == "cuda" else "float32"
        return cls(device, default if config.precision == "auto" else config.precision)

    def vectors(self, function: Callable[..., Any], *given: Any, **named: Any) -> np.ndarray:
        """What a function of a model returns, vectors (n, d) or an output object that pools them, as float32.

        It runs without gradients, and in automatic mixed precision unless the precision is float32.
        """
        import torch

        type = None if self.precision == "float32" else getattr(torch, self.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, type, enabled=type is not None):
            output = function(*given, **named)
        found: np.ndarray = getattr(output, "pooler_output", output).float().cpu().numpy()
        return found

    def identity(self, path: Path) -> dict[str, str]:
        """What determines the vectors of the model in `path`."""
        return {"files": hash_path(path), "precision": self.precision}


LONGEST = 512  # tokens of a text, where neither the model nor its tokenizer sets a limit
PADDED = ("siglip",)  # models trained on texts that are padded to their full length


def hugging_face(rest: str, config: ScoreConfig) -> Encoder:
    """`hf:FOLDER`, or a name on the hub: a dual encoder of transformers (CLIP, SigLIP, ALIGN …).

    Its image processor resizes and normalises images; texts are cut at the length that the model reads.
    """
    path = pretrained.locate_hugging_face(rest)
    torch = Torch.of(config)

    def load() -> tuple[Images, Texts]:
        from torch import concatenate

        model, processor, tokenizer = pretrained.read_hugging_face(path)
        model = model.eval().to(torch.device)
        longest = getattr(model.config.get_text_config(), "max_position_embeddings", None) or LONGEST
        padding = "max_length" if model.config.model_type.startswith(PADDED) else True
        cut = {"truncation": True, "max_length": min(tokenizer.model_max_length, longest)}

        def images(files: Sequence[Path]) -> np.ndarray:
            parts = [processor(images=opened, return_tensors="pt") for opened in open_images(files)]
            batch = {name: concatenate([part[name] for part in parts]).to(torch.device) for name in parts[0]}
            return torch.vectors(model.get_image_features, **batch)

        def texts(texts: Sequence[str]) -> np.ndarray:
            batch = tokenizer(list(texts), padding=padding, return_tensors="pt", **cut)
            return torch.vectors(model.get_text_features, **batch.to(torch.device))

        return images, texts

    return Encoder.loaded(Path(rest).name, torch.identity(path), load)


def open_clip(rest: str, config: ScoreConfig) -> Encoder:
    """`open_clip:ARCHITECTURE:WEIGHTS`: a model of OpenCLIP, weights from a file or by their name on the hub;
    `open_clip:FOLDER`: a saved one.

    Images and texts are read by the model's own transform and tokenizer.
    """
    found = pretrained.locate_open_clip(rest)
    torch = Torch.of(config)
    name = found.weights.name if found.architecture.startswith(pretrained.LOCAL) else found.architecture

    settings = {key: str(value) for key, value in found.settings.items()}

    def load() -> tuple[Images, Texts]:
        from torch import stack

        model, transform, tokenizer = pretrained.read_open_clip(found, torch.device)

        def images(files: Sequence[Path]) -> np.ndarray:
            pixels = stack([transform(image) for image in chain.from_iterable(open_images(files))])
            return torch.vectors(model.encode_image, pixels.to(torch.device))

        return images, lambda texts: torch.vectors(model.encode_text, tokenizer(list(texts)).to(torch.device))

    return Encoder.loaded(name, {**torch.identity(found.weights), "architecture": name, **settings}, load)


def sentence_transformers(rest: str, config: ScoreConfig) -> Encoder:
    """`sentence-transformers:FOLDER`: a model of sentence-transformers that embeds images and texts."""
    path = Path(rest)
    pretrained.require_files("sentence-transformers", path, ("modules.json", "config.json"), ("**/*.safetensors",))
    needed = "models of sentence-transformers need that library: pip install sentence-transformers"
    pretrained.require_libraries(needed, "sentence_transformers")
    torch = Torch.of(config)

    def load() -> tuple[Images, Texts]:
        from sentence_transformers import SentenceTransformer

        with reading(path, "model"):
            model = SentenceTransformer(str(path), device=torch.device.type, local_files_only=True)

        def vectors(items: Sequence[Any]) -> np.ndarray:  # the model tells images from texts
            given = {"batch_size": config.batch, "convert_to_tensor": True, "show_progress_bar": False}
            return torch.vectors(model.encode, list(items), **given)

        return lambda files: np.concatenate([vectors(images) for images in open_images(files)]), vectors

    return Encoder.loaded(path.name, torch.identity(path), load)


MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP's
SIDE, WORDS = 224, 77  # of CLIP; used where the models and their files say nothing
OUTPUTS = ("image_embeds", "text_embeds")  # preferred


def onnx(rest: str, config: ScoreConfig) -> Encoder:
    """`onnx:IMAGES,TEXTS`: two ONNX models, one for images and one for texts, as exporters of CLIP models write them.

    In the folder of a model, or the one above, `tokenizer.json` says how texts are cut into tokens, and
    `preprocessor_config.json` (as of Hugging Face) how images are resized and normalised.
    """
    paths = [Path(part) for part in rest.split(",")]
    if len(paths) != 2:
        raise ValueError(f"onnx must be two files, onnx:IMAGES.onnx,TEXTS.onnx, was: {rest}")
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file, expected an ONNX model")
    needed = 'onnx models need ONNX Runtime, Pillow and tokenizers: pip install "negcap[features]" tokenizers'
    pretrained.require_libraries(needed, "onnxruntime", "tokenizers")
    images, texts = paths
    words, about = _beside(texts, "tokenizer.json"), _beside(images, "preprocessor_config.json")
    if not words:
        raise FileNotFoundError(f"{texts} needs tokenizer.json in its folder, or in the one above")
    files = [images, texts, *words, *about]
    identity = {f"{number} {file.name}": sha256_file(file) for number, file in enumerate(files)}
    settings = json.loads(about[0].read_text(encoding="utf-8")) if about else {}
    return Encoder.loaded(
        images.parent.name or images.stem,
        identity,
        lambda: (_onnx_images(images, settings, config), _onnx_texts(texts, words[0], config)),
    )


def _beside(model: Path, name: str) -> list[Path]:
    """The file `name` in the folder of a model, or in the one above; none if there is none."""
    return [folder / name for folder in (model.parent, model.parent.parent) if (folder / name).is_file()][:1]


def _onnx_images(path: Path, about: Mapping[str, Any], config: ScoreConfig) -> Images:
    """The shorter side of an image is resized, the centre cropped and normalised."""
    session = _session(path, config)
    given = session.get_inputs()[0]
    side = given.shape[-1]
    if not isinstance(side, int):
        size = about.get("crop_size") or about.get("size")
        size = size.get("height") or size.get("shortest_edge") if isinstance(size, dict) else size
        side = int(size or SIDE)
    mean, std = (np.array(about.get(name, own), np.float32) for name, own in (("image_mean", MEAN), ("image_std", STD)))

    def vectors(files: Sequence[Path]) -> np.ndarray:
        pixels = [_cropped(image, side) / np.float32(255) for image in chain.from_iterable(open_images(files))]
        return _run(session, path, {given.name: ((np.stack(pixels) - mean) / std).transpose(0, 3, 1, 2)})

    return vectors


def _onnx_texts(path: Path, words: Path, config: ScoreConfig) -> Texts:
    """Texts are padded to one length, that of the model's input if it prescribes one."""
    from tokenizers import Tokenizer

    session, tokenizer = _session(path, config), Tokenizer.from_file(str(words))
    inputs = {given.name: given for given in session.get_inputs()}
    if unknown := sorted(set(inputs) - {"input_ids", "attention_mask"}):
        raise ValueError(f"{path}: must have the inputs input_ids and attention_mask, has {unknown[0]}")
    length = inputs["input_ids"].shape[1] if "input_ids" in inputs else None
    fixed, padding = length if isinstance(length, int) else None, tokenizer.padding or {}
    tokenizer.enable_truncation(fixed or (tokenizer.truncation or {}).get("max_length", WORDS))
    tokenizer.enable_padding(
        pad_id=padding.get("pad_id", 0),
        pad_token=padding.get("pad_token", "<pad>"),
        length=fixed or padding.get("length"),
    )

    def vectors(texts: Sequence[str]) -> np.ndarray:
        found = tokenizer.encode_batch(list(texts))
        given = {"input_ids": [one.ids for one in found], "attention_mask": [one.attention_mask for one in found]}
        return _run(session, path, {name: np.array(given[name], np.int64) for name in inputs})

    return vectors


def _session(path: Path, config: ScoreConfig) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = config.threads
    options.log_severity_level = 4
    gpu = config.device != "cpu" and PROVIDERS["cuda"] in onnxruntime.get_available_providers()
    providers = [PROVIDERS["cuda"], PROVIDERS["cpu"]] if gpu else [PROVIDERS["cpu"]]
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # ONNX Runtime's own
        raise ValueError(f"{path}: must be an ONNX model, cannot be run: {first_line(error)}") from None


def _run(session: Any, path: Path, given: dict[str, np.ndarray]) -> np.ndarray:
    """The output (n, d) of a model, preferably the one that is named as an embedding."""
    outputs = [each.name for each in session.get_outputs() if len(each.shape) == 2]
    if not outputs:
        raise ValueError(f"{path}: must have an output (n, d), has none")
    chosen = next((name for name in OUTPUTS if name in outputs), outputs[0])
    try:
        return np.asarray(session.run([chosen], given)[0], np.float32)
    except Exception as error:  # ONNX Runtime's own
        raise ValueError(f"{path}: cannot be run: {first_line(error)}") from None


def _cropped(image: Any, side: int) -> np.ndarray:
    """The centre of an image whose shorter side is `side` pixels: (side, side, 3) float32, from 0 to 255."""
    from PIL import Image

    scale = side / min(image.size)
    wide, high = (max(side, round(length * scale)) for length in image.size)
    left, top = (wide - side) // 2, (high - side) // 2
    found = image.resize((wide, high), Image.Resampling.BICUBIC).crop((left, top, left + side, top + side))
    return np.asarray(found, np.float32)


ENCODERS: dict[str, Callable[[str, ScoreConfig], Encoder]] = {
    "hf": hugging_face,
    "open_clip": open_clip,
    "sentence-transformers": sentence_transformers,
    "onnx": onnx,
}
