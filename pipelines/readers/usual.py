"""The names that columns usually have, by what is in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .record import plain_name

# The usual names of columns, the most likely first; a file name identifies an image better than a data set's own number
IMAGE = (
    "image", "image_path", "image_file", "image_name", "filepath", "file_path", "filename", "file_name",
    "path", "img_path", "img_name", "img", "image_url", "url", "image_id", "imageid", "img_id", "imgid",
    "photo", "photo_id", "image/key", "video", "video_path", "video_name", "video_id", "videoid", "youtube_id",
)  # fmt: skip
CAPTION = (
    "caption", "captions", "text", "sentence", "sentences", "title", "raw", "comment", "description",
    "alt_text", "caption_str", "phrase", "paragraph",
)  # fmt: skip
# Only these columns inside columns are taken for captions unasked: a `text` or `title` may be read off a sign.
INNER_CAPTION = ("caption", "captions", "sentence", "sentences", "raw", "phrase", "caption_str")
NUMBERED = re.compile(r"(?:caption|sentence|text|description|comment)[\s_-]*\d+", re.IGNORECASE)
SPLIT = ("split", "subset", "partition")
URL = ("image_url", "url")
ID = ("uid", "key")  # of DataComp, of img2dataset


def guess(usual: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of the `usual` names that is in `names`, as spelt there; case, spaces, - and _ are ignored. Or None."""
    # Reversed, so that of names that are alike (`Caption`, `caption`) the first stays.
    plain = {plain_name(name): name for name in reversed(names)}
    return next((plain[name] for name in usual if name in plain), None)
