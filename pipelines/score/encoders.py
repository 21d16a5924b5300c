"""Models that map images and texts to vectors: of transformers, OpenCLIP, sentence-transformers, or in ONNX.

A kind of model is one class here, named in MODELS of `.score`. Models are read from local files, code in them is never
run, and a model is loaded when the first vector is asked for: not if all of them are kept in the run.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.manifest import hash_path
from ..engine.storage import sha256_file
from ..features.photos import PROVIDERS
from ..features.preprocess import open_images
from .test_set import ScoreConfig


class Encoder(ABC):
    """A model that is made of what stands after `kind:` in its name; the score of a pair is the cosine of its vectors.

    name: for tables. identity: plain JSON that determines the vectors (hashes of the model's files, the precision).
    """

    name: str
    identity: Mapping[str, str]

    @abstractmethod
    def __init__(self, rest: str, config: ScoreConfig) -> None:
        """Check the files. Raises FileNotFoundError or ValueError for what is no such model, ImportError if a library
        is missing."""

    @abstractmethod
    def images(self, files: Sequence[Path]) -> np.ndarray:
        """The vectors (n, d) of n image files. Raises ValueError for a model that cannot be read."""

    @abstractmethod
    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors (n, d) of n texts. Raises ValueError for a model that cannot be read."""


class TorchEncoder(Encoder):
    """A model that PyTorch computes, with the device, threads and precision of a ScoreConfig."""

    def on_device(self, path: Path, config: ScoreConfig) -> None:
        """Choose device and precision for the model in `path`. Raises ValueError for cuda without a GPU."""
        import torch

        from ..models.device import choose_device

        self.path, self.name, self.device = path, path.name, choose_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        default = "bfloat16" if self.device.type == "cuda" else "float32"
        self.precision = default if config.precision == "auto" else config.precision
        self.identity = {"files": hash_path(path), "precision": self.precision}

    @contextmanager
    def inference(self) -> Iterator[None]:
        """A context without gradients, and with automatic mixed precision unless the precision is float32."""
        import torch

        type = None if self.precision == "float32" else getattr(torch, self.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, type, enabled=type is not None):
            yield


def _vectors(output: Any) -> np.ndarray:
    """A model's vectors (n, d) as float32 on the CPU, from a tensor or from an output object that pools them."""
    found = output if hasattr(output, "detach") else output.pooler_output
    array: np.ndarray = found.detach().float().cpu().numpy()
    return array


def _need(message: str, *libraries: str) -> None:
    try:
        for name in libraries:
            import_module(name)
    except ImportError as error:
        raise ImportError(message) from error


def _need_files(kind: str, folder: Path, *patterns: tuple[str, ...]) -> None:
    """Raise FileNotFoundError if a folder lacks a file of one of these alternatives."""
    for names in patterns:
        if not any(file for name in names for file in folder.glob(name)):
            shown = " or ".join(name.removeprefix("**/") for name in names)
            raise FileNotFoundError(f"{kind} must be a folder with {shown}, {folder} has none")


class HuggingFace(TorchEncoder):
    """`hf:FOLDER`: a dual encoder of transformers (CLIP, SigLIP, ALIGN …)."""

    LONGEST = 512  # tokens of a text, where neither the model nor its tokenizer sets a limit
    PADDED = ("siglip",)  # models trained on texts that are padded to their full length

    def __init__(self, rest: str, config: ScoreConfig) -> None:
        path = Path(rest)
        processors = ("preprocessor_config.json", "processor_config.json")
        _need_files("hf", path, ("config.json",), processors, ("*.safetensors",))
        needed = 'models of Hugging Face need PyTorch, transformers and Pillow: pip install "negcap[score]"'
        _need(needed, "torch", "transformers", "PIL.Image")
        self.on_device(path, config)

    @cached_property
    def loaded(self) -> tuple[Any, Any, Any]:
        """The model, in float32, on the device; its image processor and its tokenizer.

        Raises ValueError for what cannot be read, for weights that are incomplete, and for a model of another kind.
        """
        import transformers

        from ..models.scorer import reading

        path, local = self.path, {"local_files_only": True}
        with reading(path, "weights"):
            model, found = transformers.AutoModel.from_pretrained(
                path, use_safetensors=True, output_loading_info=True, **local
            )
        with reading(path, "image processor"):  # the one that computes with Pillow, since others need torchvision
            processor = transformers.AutoImageProcessor.from_pretrained(path, use_fast=False, **local)
        with reading(path, "tokenizer"):
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, **local)
        if missing := sorted(found["missing_keys"]):
            raise ValueError(f"the weights in {path} must be those of the whole model, lack: {missing[0]}")
        if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
            kind = type(model).__name__
            raise ValueError(f"hf must be a model with vectors of images and texts, as CLIP, {path} is: {kind}")
        return model.float().eval().to(self.device), processor, tokenizer

    def images(self, files: Sequence[Path]) -> np.ndarray:
        """Vectors of image files, resized and normalised by the image processor in the model's folder."""
        import torch

        model, processor, _ = self.loaded
        parts = [processor(images=images, return_tensors="pt") for images in open_images(files)]
        batch = {name: torch.cat([part[name] for part in parts]).to(self.device) for name in parts[0]}
        with self.inference():
            return _vectors(model.get_image_features(**batch))

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, cut at the length that the model reads."""
        model, _, tokenizer = self.loaded
        about = model.config
        longest = getattr(about.get_text_config(), "max_position_embeddings", None) or self.LONGEST
        batch = tokenizer(
            list(texts),
            padding="max_length" if about.model_type.startswith(self.PADDED) else True,
            truncation=True,
            max_length=min(tokenizer.model_max_length, longest),
            return_tensors="pt",
        )
        with self.inference():
            return _vectors(model.get_text_features(**batch.to(self.device)))


class OpenClip(TorchEncoder):
    """`open_clip:ARCHITECTURE:WEIGHTS`: a model of OpenCLIP, weights from a file; `open_clip:FOLDER`: a saved one."""

    def __init__(self, rest: str, config: ScoreConfig) -> None:
        from ..models.clip.towers import LOCAL, locate

        self.architecture, weights = locate(rest)
        self.on_device(weights, config)
        self.name = self.name if self.architecture.startswith(LOCAL) else self.architecture
        self.identity = {**self.identity, "architecture": self.name}

    @cached_property
    def loaded(self) -> Any:
        """The model, its image transform and its tokenizer."""
        from ..models.clip.towers import read

        return read(self.architecture, self.path, self.device)

    def images(self, files: Sequence[Path]) -> np.ndarray:
        """Vectors of image files, with the model's own transform."""
        import torch

        images = chain.from_iterable(open_images(files))
        pixels = torch.stack([self.loaded.transform(image) for image in images]).to(self.device)
        with self.inference():
            return _vectors(self.loaded.model.encode_image(pixels))

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, with the model's own tokenizer."""
        with self.inference():
            return _vectors(self.loaded.model.encode_text(self.loaded.tokenizer(list(texts)).to(self.device)))


class SentenceTransformers(TorchEncoder):
    """`sentence-transformers:FOLDER`: a model of sentence-transformers that embeds images and texts."""

    def __init__(self, rest: str, config: ScoreConfig) -> None:
        path = Path(rest)
        _need_files("sentence-transformers", path, ("modules.json", "config.json"), ("**/*.safetensors",))
        needed = "models of sentence-transformers need that library: pip install sentence-transformers"
        _need(needed, "sentence_transformers")
        self.on_device(path, config)
        self.batch = config.batch

    @cached_property
    def model(self) -> Any:
        """The model, on the device."""
        from sentence_transformers import SentenceTransformer

        from ..models.scorer import reading

        with reading(self.path, "model"):
            return SentenceTransformer(str(self.path), device=self.device.type, local_files_only=True)

    def images(self, files: Sequence[Path]) -> np.ndarray:
        """Vectors of image files."""
        return np.concatenate([self.texts(images) for images in open_images(files)])

    def texts(self, texts: Sequence[Any]) -> np.ndarray:
        """Vectors of texts, or of images: the model tells which they are."""
        with self.inference():
            found = self.model.encode(
                list(texts), batch_size=self.batch, convert_to_tensor=True, show_progress_bar=False
            )
        return _vectors(found)


class Onnx(Encoder):
    """`onnx:IMAGES,TEXTS`: two ONNX models, one for images and one for texts, as exporters of CLIP models write them.

    In the folder of a model, or the one above, `tokenizer.json` says how texts are cut into tokens, and
    `preprocessor_config.json` (as of Hugging Face) how images are resized and normalised.
    """

    MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP's
    SIDE, LONGEST = 224, 77  # of CLIP; used where the models and their files say nothing
    OUTPUTS = ("image_embeds", "text_embeds")  # preferred

    def __init__(self, rest: str, config: ScoreConfig) -> None:
        paths = [Path(part) for part in rest.split(",")]
        if len(paths) != 2:
            raise ValueError(f"onnx must be two files, onnx:IMAGES.onnx,TEXTS.onnx, was: {rest}")
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(f"{path}: no such file, expected an ONNX model")
        needed = 'onnx models need ONNX Runtime, Pillow and tokenizers: pip install "negcap[features]" tokenizers'
        _need(needed, "onnxruntime", "tokenizers")
        images, texts = self.paths = paths
        self.config, self.name = config, images.parent.name or images.stem
        beside = [*_beside(texts, "tokenizer.json"), *_beside(images, "preprocessor_config.json")]
        if not beside or beside[0].name != "tokenizer.json":
            raise FileNotFoundError(f"{texts} needs tokenizer.json in its folder, or in the one above")
        self.tokenizer_file, *about = beside
        self.about: dict[str, Any] = json.loads(about[0].read_text(encoding="utf-8")) if about else {}
        files = [images, texts, *beside]
        self.identity = {f"{number} {file.name}": sha256_file(file) for number, file in enumerate(files)}

    @cached_property
    def sessions(self) -> list[Any]:
        """The ONNX Runtime sessions of both models. Raises ValueError for a file that cannot be run."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.config.threads
        options.log_severity_level = 4
        gpu = self.config.device != "cpu" and PROVIDERS["cuda"] in onnxruntime.get_available_providers()
        providers = [PROVIDERS["cuda"], PROVIDERS["cpu"]] if gpu else [PROVIDERS["cpu"]]
        made = []
        for path in self.paths:
            try:
                made.append(onnxruntime.InferenceSession(str(path), options, providers=providers))
            except Exception as error:  # ONNX Runtime's own
                raise ValueError(f"{path}: must be an ONNX model, cannot be run: {_first_line(error)}") from None
        return made

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, which pads texts to one length, that of the model's input if it prescribes one."""
        from tokenizers import Tokenizer

        made = Tokenizer.from_file(str(self.tokenizer_file))
        length = next((given.shape[1] for given in self.sessions[1].get_inputs() if given.name == "input_ids"), None)
        fixed, padding = length if isinstance(length, int) else None, made.padding or {}
        made.enable_truncation(fixed or (made.truncation or {}).get("max_length", self.LONGEST))
        made.enable_padding(
            pad_id=padding.get("pad_id", 0),
            pad_token=padding.get("pad_token", "<pad>"),
            length=fixed or padding.get("length"),
        )
        return made

    def images(self, files: Sequence[Path]) -> np.ndarray:
        """Vectors of image files: the shorter side resized, the centre cropped, normalised."""
        (given,) = self.sessions[0].get_inputs()[:1]
        side = given.shape[-1]
        if not isinstance(side, int):
            size = self.about.get("crop_size") or self.about.get("size")
            size = size.get("height") or size.get("shortest_edge") if isinstance(size, dict) else size
            side = int(size or self.SIDE)
        mean = np.array(self.about.get("image_mean", self.MEAN), np.float32)
        std = np.array(self.about.get("image_std", self.STD), np.float32)
        images = chain.from_iterable(open_images(files))
        pixels = np.stack([(_cropped(image, side) / np.float32(255) - mean) / std for image in images])
        return self._run(0, {given.name: pixels.transpose(0, 3, 1, 2)})

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts."""
        found = self.tokenizer.encode_batch(list(texts))
        given = {"input_ids": [one.ids for one in found], "attention_mask": [one.attention_mask for one in found]}
        names = [each.name for each in self.sessions[1].get_inputs()]
        unknown = sorted(set(names) - set(given))
        if unknown:
            raise ValueError(f"{self.paths[1]}: must have the inputs input_ids and attention_mask, has {unknown[0]}")
        return self._run(1, {name: np.array(given[name], np.int64) for name in names})

    def _run(self, number: int, given: dict[str, np.ndarray]) -> np.ndarray:
        """The output of two dimensions of one of the models, preferably the one that is named as an embedding."""
        session, path = self.sessions[number], self.paths[number]
        outputs = [each.name for each in session.get_outputs() if len(each.shape) == 2]
        if not outputs:
            raise ValueError(f"{path}: must have an output (n, d), has none")
        chosen = next((name for name in self.OUTPUTS if name in outputs), outputs[0])
        try:
            (found,) = session.run([chosen], given)
        except Exception as error:  # ONNX Runtime's own
            raise ValueError(f"{path}: cannot be run: {_first_line(error)}") from None
        return np.asarray(found, np.float32)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _beside(model: Path, name: str) -> list[Path]:
    """The file `name` in the folder of a model, or in the one above; none if there is none."""
    return [folder / name for folder in (model.parent, model.parent.parent) if (folder / name).is_file()][:1]


def _cropped(image: Any, side: int) -> np.ndarray:
    """The centre of an image whose shorter side is `side` pixels: (side, side, 3) bytes."""
    from PIL import Image

    scale = side / min(image.size)
    wide, high = (max(side, round(length * scale)) for length in image.size)
    left, top = (wide - side) // 2, (high - side) // 2
    found = image.resize((wide, high), Image.Resampling.BICUBIC).crop((left, top, left + side, top + side))
    return np.asarray(found, np.float32)
