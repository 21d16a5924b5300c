"""Models of Hugging Face and OpenCLIP from local files; code in them is never run. Imports no torch.

A model that is named as on the hub of Hugging Face is read from the hub's cache on this machine; the hub is not asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

from ....schemas.messages import did_you_mean
from ...engine.errors import require_libraries
from ...readers.files import first_line

NEEDED = 'models of Hugging Face need PyTorch, transformers and Pillow: pip install "negcap[score]"'
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
OPEN_CLIP_NEEDED = (
    'models of OpenCLIP need open_clip and a torchvision that fits PyTorch: pip install "negcap[score]" open-clip-torch'
)
CONFIG = "open_clip_config.json"
WEIGHTS = "open_clip_model.safetensors"
PICKLED = "open_clip_pytorch_model.bin"  # the same, of which only tensors are read
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
LOCAL = "local-dir:"  # before the folder of a saved model, in OpenCLIP's own names


class Loaded(NamedTuple):
    """A model of Hugging Face or OpenCLIP, its image processor or transform without augmentation, and its tokenizer.

    They are of any class of these libraries, which have no common type.
    """

    model: Any
    processor: Any
    tokenizer: Any


def require_hugging_face() -> None:
    """Raise ImportError if a library is missing."""
    require_libraries(NEEDED, "torch", "transformers", "PIL.Image")


def locate_hugging_face(name: str) -> Path:
    """The folder of a model: `name` itself, or where the hub's cache keeps a model (`openai/clip-vit-base-patch32`).

    Raises ImportError if a library is missing, FileNotFoundError for a name or a file of a model that is not there.
    """
    require_hugging_face()
    folder = Path(name)
    if not folder.exists() and REPOSITORY.fullmatch(name):
        config = cached(name, "config.json")
        if config is None:
            raise FileNotFoundError(f"{name} is neither a folder nor in the cache of the hub: hf download {name}")
        folder = config.parent
    require_files("hf", folder, ("config.json",), PROCESSORS, ("*.safetensors", "pytorch_model*.bin"))
    return folder


def cached(repository: str, *names: str) -> Path | None:
    """The first of these files of a repository on the hub that is in the hub's cache on this machine; None: none is."""
    from huggingface_hub import try_to_load_from_cache

    for name in names:
        path = try_to_load_from_cache(repository, name)
        if isinstance(path, str):  # else None, or a mark that the repository has no such file
            return Path(path)
    return None


def read_hugging_face(folder: Path) -> Loaded:
    """Load a dual encoder from a folder, in float32; code in it is never run. Raises ValueError for what cannot be
    read, lacks weights, or has no vectors of images and texts.
    """
    import transformers

    with reading(folder, "weights"):
        model, loading = transformers.AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=any(folder.glob("*.safetensors")),
            weights_only=True,  # of pickled files, which could run code
            output_loading_info=True,
        )
    with reading(folder, "image processor"):  # the one that computes with Pillow, since others need torchvision
        processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False, local_files_only=True)
    with reading(folder, "tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    # transformers fills missing weights with random numbers, and only warns of it
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(f"the weights in {folder} must be those of the whole model, lack: {missing[0]}")
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        kind = type(model).__name__
        raise ValueError(f"hf must be a model with vectors of images and texts, as CLIP, {folder} is: {kind}")
    return Loaded(model.float(), processor, tokenizer)


def require_files(kind: str, folder: Path, *patterns: tuple[str, ...]) -> None:
    """Raise FileNotFoundError if a folder lacks what a model needs: a file by each of the patterns.

    Each is a tuple of names that will do, such as ("*.safetensors", "pytorch_model*.bin"). kind: of the model, "hf".
    """
    for names in patterns:
        if not any(file for name in names for file in folder.glob(name)):
            shown = " or ".join(name.removeprefix("**/") for name in names)
            raise FileNotFoundError(f"{kind} must be a folder with {shown}, {folder} has none")


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Silence transformers while it reads a part of a folder; errors become a ValueError that names both."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
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


class OpenClipModel(NamedTuple):
    """What makes a model of OpenCLIP: its name of an architecture; weights, a file or the folder of a saved model;
    settings, the further arguments of `create_model_and_transforms`.
    """

    architecture: str
    weights: Path
    settings: Mapping[str, object] = MappingProxyType({})


def locate_open_clip(name: str) -> OpenClipModel:
    """The model that `ARCHITECTURE:WEIGHTS` or `FOLDER` names. WEIGHTS are a file, or weights by OpenCLIP's name for
    them (`ViT-B-32:openai`) in the hub's cache. Raises FileNotFoundError for files that are not there, ValueError for
    an unknown architecture, ImportError if open_clip cannot be imported.
    """
    folder = Path(name)
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            raise FileNotFoundError(f"open_clip must be a folder with {CONFIG}, {folder} has none")
        _open_clip()
        return OpenClipModel(f"{LOCAL}{folder}", folder)
    architecture, colon, weights = name.partition(":")
    if not colon:
        raise ValueError(f"open_clip must be open_clip:ARCHITECTURE:WEIGHTS or open_clip:FOLDER, was: {name}")
    library = _open_clip()
    if architecture not in (known := library.list_models()):
        raise ValueError(f"open_clip has no architecture {architecture}{did_you_mean(architecture, known)}")
    if Path(weights).exists():
        return OpenClipModel(architecture, Path(weights))

    # By name: OpenCLIP would download the weights, so they are looked up in the cache here.
    about = library.get_pretrained_cfg(architecture, weights)
    repository, _, file_name = about.get("hf_hub", "").rpartition("/")
    if not repository:
        raise FileNotFoundError(f"{weights}: no such file of weights, nor weights of {architecture} on the hub")
    names = (f"{file_name.rpartition('.')[0]}.safetensors", file_name) if file_name else (WEIGHTS, PICKLED)
    path = cached(repository, *names)
    if path is None:
        raise FileNotFoundError(f"{name} is not in the cache of the hub: hf download {repository} {names[0]}")
    # A file of weights does not say how pictures are prepared for it; OpenCLIP's entry of its name does.
    settings = {f"image_{what}": about[what] for what in ("mean", "std", "interpolation", "resize_mode")}
    return OpenClipModel(architecture, path, {**settings, "force_quick_gelu": about.get("quick_gelu", False)})


def read_open_clip(located: OpenClipModel) -> Loaded:
    """Load a model; pickled code in it is never run. Raises ValueError if it cannot be read."""
    open_clip = _open_clip()
    architecture, weights, settings = located
    # The name of a saved folder tells where its weights are.
    pretrained = None if architecture.startswith(LOCAL) else str(weights)
    try:
        model, _, transform = open_clip.create_model_and_transforms(
            architecture, pretrained=pretrained, device="cpu", weights_only=True, **settings
        )
        return Loaded(model.eval(), transform, open_clip.get_tokenizer(architecture))
    except Exception as error:  # of many types, by the library that reads the file
        raise ValueError(f"open_clip cannot make {architecture} from {weights}: {first_line(error)}") from error


def _open_clip() -> ModuleType:
    """The module open_clip. Raises ImportError, with how to install it, if it cannot be imported."""
    try:
        import open_clip
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another PyTorch
        raise ImportError(f"{OPEN_CLIP_NEEDED} ({first_line(error)})") from error
    return open_clip
