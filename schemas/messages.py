"""How messages say a number of things, a name that is not known, and a library that is missing."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def number_of(number: int, noun: str) -> str:
    """A number and a noun, which gets a plural s: "1 caption", "1,200 captions"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def no_setting(name: str, whose: str, known: Iterable[str]) -> str:
    """The message about a setting that does not exist: `marign is no setting of train; did you mean margin?`."""
    return f"{name} is no setting of {whose}{did_you_mean(name, known)}"


def not_one_of(name: str, value: object, words: Iterable[str], unlisted: Iterable[str] = (), more: str = "") -> str:
    """The message about a value that is not one of `words`: it lists these, and names the most similar one.

    Args:
        name: what has the value: a flag, an argument, a column.
        value: what was given.
        words: the valid words.
        unlisted: further valid words, which are not listed but may be the most similar one.
        more: what follows the list, such as " in outputs/mine".
    """
    valid = list(words)
    similar = did_you_mean(str(value), [*valid, *unlisted])
    return f"{name} must be one of {', '.join(valid)}{more}, was: {value}{similar}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar one that is known; "" if none is similar."""
    similar = get_close_matches(name, known, 1)
    return f"; did you mean {similar[0]}?" if similar else ""


def word(name: str, value: str, valid: Iterable[str], unlisted: Iterable[str] = ()) -> str:
    """`value`, if it is one of `valid` or `unlisted`; raises ValueError otherwise, whose message lists only `valid`."""
    listed = list(valid)
    others = list(unlisted)
    if value not in listed and value not in others:
        raise ValueError(not_one_of(name, value, listed, others))
    return value


# By module: what the library is called, and the extra of negcap that installs it.
LIBRARIES = {
    "aiohttp": ("aiohttp", "remote"),
    "datasketch": ("datasketch", "web"),
    "matplotlib": ("Matplotlib", "train"),
    "nltk": ("NLTK", "train"),
    "onnxruntime": ("ONNX Runtime", "features"),
    "openai": ("openai", "endpoint"),
    "PIL": ("Pillow", "publish"),
    "py3langid": ("py3langid", "web"),
    "s3fs": ("s3fs", "s3"),
    "safetensors": ("safetensors", "train"),
    "scipy": ("scikit-learn", "quality"),
    "sklearn": ("scikit-learn", "quality"),
    "torch": ("PyTorch", "train"),
    "transformers": ("transformers", "score"),
}


def missing_library(error: BaseException) -> str:
    """What to install if an error says that a library of an extra is missing; "" for any other error."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if module not in LIBRARIES:
        return ""
    library, extra = LIBRARIES[module]
    return f'this needs {library}, which is not installed: pip install "negcap[{extra}]"'


# By protocol of a URL: the extra of negcap that installs what reads it.
PROTOCOLS = {
    **{"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "azure", "abfs": "azure", "abfss": "azure"},
    **{"http": "remote", "https": "remote"},
}


def missing_protocol(protocol: str, error: ImportError) -> str:
    """What to install for URLs of a protocol, of which fsspec says by an error that it lacks a library."""
    extra = PROTOCOLS.get(protocol)
    return f"{protocol}:// needs another library: " + (f'pip install "negcap[{extra}]"' if extra else str(error))
