"""Models of OpenCLIP in local files: an architecture with weights, or a saved folder. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

NEEDED = "models of OpenCLIP need open_clip and a torchvision that fits PyTorch: pip install open-clip-torch"
CONFIG = "open_clip_config.json"
LOCAL = "local-dir:"  # before the folder of a saved model, in OpenCLIP's own names


class Loaded(NamedTuple):
    """A model of OpenCLIP, its image transform without augmentation, and its tokenizer."""

    model: Any
    transform: Any
    tokenizer: Any


def locate(rest: str) -> tuple[str, Path]:
    """The architecture, as OpenCLIP names it, and the path of the weights in `ARCHITECTURE:WEIGHTS` or `FOLDER`.

    Raises FileNotFoundError for files that are not there, ValueError for an unknown architecture, ImportError if
    open_clip cannot be imported.
    """
    folder = Path(rest)
    if folder.is_dir() and not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"open_clip must be a folder with {CONFIG}, {folder} has none")
    architecture, colon, path = rest.partition(":")
    weights = folder if folder.is_dir() else Path(path)
    if not folder.is_dir() and not colon:
        raise ValueError(f"open_clip must be open_clip:ARCHITECTURE:WEIGHTS or open_clip:FOLDER, was: {rest}")
    if not weights.is_dir() and not weights.is_file():
        raise FileNotFoundError(f"{weights}: no such file of weights")
    known = _library().list_models()
    if not folder.is_dir() and architecture not in known:
        from difflib import get_close_matches

        near = get_close_matches(architecture, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"open_clip has no architecture {architecture}{hint}")
    return f"{LOCAL}{folder}" if folder.is_dir() else architecture, weights


def read(architecture: str, weights: Path, device: Any = "cpu") -> Loaded:
    """Load what `locate` found; pickled code in it is never run. Raises ValueError if it cannot be read."""
    open_clip = _library()
    pretrained = None if architecture.startswith(LOCAL) else str(weights)
    try:
        model, _, transform = open_clip.create_model_and_transforms(
            architecture, pretrained=pretrained, device=device, weights_only=True
        )
        return Loaded(model.eval(), transform, open_clip.get_tokenizer(architecture))
    except Exception as error:  # of many types, by the library that reads the file
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"open_clip cannot make {architecture} from {weights}: {why}") from error


def _library() -> Any:
    try:
        import open_clip
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another PyTorch
        raise ImportError(f"{NEEDED} ({next(iter(str(error).splitlines()), '')})") from error
    return open_clip
