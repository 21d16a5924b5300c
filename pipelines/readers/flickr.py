"""Flickr8k and Flickr30k token files: lines `name.jpg#k⇥caption`.

Hodosh et al. 2013 and Young et al. 2014. k is the number of the caption among those of its image, and becomes the last
part of its caption_id; the captions of an image need not be adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator

from .files import LongLine, lines, name_of, split_in
from .record import MAX_NUMBER, ReadOptions, Record, Rejected, excerpt

EXPECTED = "a Flickr token file of lines `name.jpg#k⇥caption`"
GROUPED = False


def files(source: str, options: ReadOptions) -> list[str]:
    """The files that a source in this format consists of: the file itself."""
    return [source]


def records(source: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of a token file, one record each, in file order; empty lines are skipped, a line of another form is
    rejected.
    """
    name, split, language = name_of(source), split_in(source), options.language
    for line, content in enumerate(lines(source, EXPECTED), 1):
        if isinstance(content, LongLine):
            yield Rejected(name, line, "too_long", LongLine.RULE, excerpt(content))
            continue
        key, tab, text = content.partition("\t")
        image, mark, number = key.rpartition("#")
        if tab and mark and number.isascii() and number.isdigit() and len(number) <= 4:
            yield Record(name, line, image, text, split, language, int(number))
        elif content.strip():
            detail = f"a line must be `image#k⇥caption` with k in 0..{MAX_NUMBER}, was: {key!r:.80}"
            yield Rejected(name, line, "not_a_record", detail, "")
