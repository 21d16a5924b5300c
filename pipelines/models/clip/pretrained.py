"""Models of Hugging Face and OpenCLIP from local files; code in them is never run. Imports no torch."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ...readers.files import first_line
from ..scorer import reading

NEEDED = 'models of Hugging Face need PyTorch, transformers and Pillow: pip install "negcap[score]"'
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
OPEN_CLIP_NEEDED = "models of OpenCLIP need open_clip and a torchvision that fits PyTorch: pip install open-clip-torch"
CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
LOCAL = "local-dir:"  # before the folder of a saved model, in OpenCLIP's own names


def require_libraries(message: str, *libraries: str) -> None:
    """Raise ImportError with a message if a library cannot be imported."""
    try:
        for name in libraries:
            import_module(name)
    except ImportError as error:
        raise ImportError(message) from error


def require_files(kind: str, folder: Path, *patterns: tuple[str, ...]) -> None:
    """Raise FileNotFoundError if a folder lacks a file of one of these alternatives."""
    for names in patterns:
        if not any(file for name in names for file in folder.glob(name)):
            shown = " or ".join(name.removeprefix("**/") for name in names)
            raise FileNotFoundError(f"{kind} must be a folder with {shown}, {folder} has none")


class Loaded(NamedTuple):
    """A model of Hugging Face or OpenCLIP, its image processor or transform without augmentation, and its tokenizer."""

    model: Any
    processor: Any
    tokenizer: Any


def require_hugging_face(folder: Path | None = None) -> None:
    """Raise ImportError if a library is missing, FileNotFoundError for a folder that lacks a file of a model."""
    require_libraries(NEEDED, "torch", "transformers", "PIL.Image")
    if folder:
        require_files("hf", folder, ("config.json",), PROCESSORS, ("*.safetensors",))


def read_hugging_face(folder: Path) -> Loaded:
    """Load a dual encoder from a folder, in float32; code in it is never run.

    Raises ValueError for what cannot be read, lacks weights, or has no vectors of images and texts.
    """
    import transformers

    local = {"local_files_only": True}
    with reading(folder, "weights"):
        model, found = transformers.AutoModel.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, **local
        )
    with reading(folder, "image processor"):  # the one that computes with Pillow, since others need torchvision
        processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False, **local)
    with reading(folder, "tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"the weights in {folder} must be those of the whole model, lack: {missing[0]}")
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        kind = type(model).__name__
        raise ValueError(f"hf must be a model with vectors of images and texts, as CLIP, {folder} is: {kind}")
    return Loaded(model.float(), processor, tokenizer)


def locate_open_clip(rest: str) -> tuple[str, Path]:
    """The architecture, as OpenCLIP names it, and the path of the weights in `ARCHITECTURE:WEIGHTS` or `FOLDER`.

    Raises FileNotFoundError for files that are not there, ValueError for an unknown architecture, ImportError if
    open_clip cannot be imported.
    """
    folder = Path(rest)
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            raise FileNotFoundError(f"open_clip must be a folder with {CONFIG}, {folder} has none")
        _open_clip()
        return f"{LOCAL}{folder}", folder
    architecture, colon, path = rest.partition(":")
    if not colon:
        raise ValueError(f"open_clip must be open_clip:ARCHITECTURE:WEIGHTS or open_clip:FOLDER, was: {rest}")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file of weights")
    known = _open_clip().list_models()
    if architecture not in known:
        hint = "".join(f"; did you mean {name}?" for name in get_close_matches(architecture, known, 1))
        raise ValueError(f"open_clip has no architecture {architecture}{hint}")
    return architecture, Path(path)


def read_open_clip(architecture: str, weights: Path, device: Any = "cpu") -> Loaded:
    """Load what `locate_open_clip` found; pickled code in it is never run. Raises ValueError if it cannot be read."""
    open_clip = _open_clip()
    pretrained = None if architecture.startswith(LOCAL) else str(weights)
    try:
        model, _, transform = open_clip.create_model_and_transforms(
            architecture, pretrained=pretrained, device=device, weights_only=True
        )
        return Loaded(model.eval(), transform, open_clip.get_tokenizer(architecture))
    except Exception as error:  # of many types, by the library that reads the file
        raise ValueError(f"open_clip cannot make {architecture} from {weights}: {first_line(error)}") from error


def _open_clip() -> Any:
    try:
        import open_clip
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another PyTorch
        raise ImportError(f"{OPEN_CLIP_NEEDED} ({first_line(error)})") from error
    return open_clip
