"""`onnx:IMAGES,TEXTS`: two ONNX models, one for images and one for texts, as exporters of CLIP models write them.

In the folder of a model, or the one above, `tokenizer.json` says how texts are cut into tokens, and
`preprocessor_config.json` (as of Hugging Face) how images are resized and normalised.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ...engine.storage import sha256_file
from ...features.photos import PROVIDERS
from ...features.preprocess import open_images
from ..config import ScoreConfig
from ..test_set import TestSet
from .interface import Embedder

NEEDED = 'onnx models need ONNX Runtime, Pillow and tokenizers: pip install "negcap[features]" tokenizers'
TOKENIZER, PROCESSOR = "tokenizer.json", "preprocessor_config.json"
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP's
SIDE, LONGEST = 224, 77  # of CLIP; used where the models and their files say nothing
OUTPUTS = ("image_embeds", "text_embeds")


class Onnx(Embedder):
    """An image encoder and a text encoder in ONNX; they are loaded when the first vector is asked for."""

    def __init__(self, images: Path, texts: Path, config: ScoreConfig) -> None:
        self.paths, self.config, self.name = (images, texts), config, images.parent.name or images.stem
        self.tokenizer_file = beside(texts, TOKENIZER)
        if self.tokenizer_file is None:
            raise FileNotFoundError(f"{texts} needs {TOKENIZER} in its folder, or in the one above")
        about = beside(images, PROCESSOR)
        self.about: dict[str, Any] = {} if about is None else json.loads(about.read_text(encoding="utf-8"))
        files = [images, texts, self.tokenizer_file, *([] if about is None else [about])]
        self.identity = {f"{number} {file.name}": sha256_file(file) for number, file in enumerate(files)}

    @cached_property
    def sessions(self) -> tuple[Any, Any]:
        """The ONNX Runtime sessions of both models. Raises ValueError for a file that cannot be run."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.config.threads
        options.log_severity_level = 4
        available = onnxruntime.get_available_providers()
        wanted = [PROVIDERS["cuda"]] if self.config.device != "cpu" and PROVIDERS["cuda"] in available else []
        made = []
        for path in self.paths:
            try:
                made.append(onnxruntime.InferenceSession(str(path), options, providers=[*wanted, PROVIDERS["cpu"]]))
            except Exception as error:  # ONNX Runtime's own
                why = next(iter(str(error).splitlines()), "")
                raise ValueError(f"{path}: must be an ONNX model, cannot be run: {why}") from None
        return made[0], made[1]

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, which pads texts to one length, that of the model's input if it prescribes one."""
        from tokenizers import Tokenizer

        made = Tokenizer.from_file(str(self.tokenizer_file))
        length = next((given.shape[1] for given in self.sessions[1].get_inputs() if given.name == "input_ids"), None)
        most = length if isinstance(length, int) else (made.truncation or {}).get("max_length", LONGEST)
        made.enable_truncation(most)
        padding = made.padding or {}
        fixed = length if isinstance(length, int) else padding.get("length")
        made.enable_padding(pad_id=padding.get("pad_id", 0), pad_token=padding.get("pad_token", "<pad>"), length=fixed)
        return made

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """Vectors of image files: the shorter side resized, the centre cropped, normalised."""
        session = self.sessions[0]
        side = session.get_inputs()[0].shape[-1]
        side = side if isinstance(side, int) else crop_side(self.about)
        mean, std = (np.array(self.about.get(name, default), np.float32) for name, default in
                     (("image_mean", MEAN), ("image_std", STD)))  # fmt: skip
        images = chain.from_iterable(open_images(files))
        pixels = np.stack([(cropped(image, side) / np.float32(255) - mean) / std for image in images])
        return self._run(session, {session.get_inputs()[0].name: pixels.transpose(0, 3, 1, 2)}, self.paths[0])

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts."""
        found = self.tokenizer.encode_batch(list(texts))
        given = {"input_ids": [one.ids for one in found], "attention_mask": [one.attention_mask for one in found]}
        names = [each.name for each in self.sessions[1].get_inputs()]
        unknown = sorted(set(names) - set(given))
        if unknown:
            raise ValueError(f"{self.paths[1]}: must have the inputs input_ids and attention_mask, has {unknown[0]}")
        return self._run(self.sessions[1], {name: np.array(given[name], np.int64) for name in names}, self.paths[1])

    def _run(self, session: Any, given: dict[str, np.ndarray], path: Path) -> np.ndarray:
        """The model's output of two dimensions, preferably the one that is named as an embedding."""
        outputs = [each.name for each in session.get_outputs() if len(each.shape) == 2]
        if not outputs:
            raise ValueError(f"{path}: must have an output (n, d), has none")
        chosen = next((name for name in OUTPUTS if name in outputs), outputs[0])
        try:
            (found,) = session.run([chosen], given)
        except Exception as error:  # ONNX Runtime's own
            raise ValueError(f"{path}: cannot be run: {next(iter(str(error).splitlines()), '')}") from None
        return np.asarray(found, np.float32)


def load(rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> Onnx:
    """Check the two files. Raises FileNotFoundError, ValueError, or ImportError without ONNX Runtime."""
    paths = [Path(part) for part in rest.split(",")]
    if len(paths) != 2:
        raise ValueError(f"onnx must be two files, onnx:IMAGES.onnx,TEXTS.onnx, was: {rest}")
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file, expected an ONNX model")
    try:
        import onnxruntime  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError as error:
        raise ImportError(NEEDED) from error
    return Onnx(paths[0], paths[1], config)


def beside(model: Path, name: str) -> Path | None:
    """The file `name` in the folder of a model, or in the one above."""
    return next((folder / name for folder in (model.parent, model.parent.parent) if (folder / name).is_file()), None)


def crop_side(about: dict[str, Any]) -> int:
    """The side of the crop in pixels, from a preprocessor_config.json."""
    size = about.get("crop_size") or about.get("size") or SIDE
    return int(size if not isinstance(size, dict) else size.get("height") or size.get("shortest_edge") or SIDE)


def cropped(image: Any, side: int) -> np.ndarray:
    """The centre of an image whose shorter side is `side` pixels: (side, side, 3) bytes."""
    from PIL import Image

    scale = side / min(image.size)
    wide, high = (max(side, round(length * scale)) for length in image.size)
    left, top = (wide - side) // 2, (high - side) // 2
    found = image.resize((wide, high), Image.Resampling.BICUBIC).crop((left, top, left + side, top + side))
    return np.asarray(found, np.float32)
