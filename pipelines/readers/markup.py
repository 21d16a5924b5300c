"""Take away what data sets put around the words of a caption: HTML, and marks of phrases and sentences.

Only what cannot be words is taken away. What is left of a mark that could not be read is found by `mark_in`.
"""

from __future__ import annotations

import ast
import html
import re

# As in nearly every caption, none of these is there.
_SIGNS = re.compile(r"[&<\[]|^b['\"]|^\W*(?:startseq|endseq)\b|endseq\W*$|^[-*\u2022]\s")
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#[xX][0-9a-fA-F]{2,5});")
_BLOCKS = "br|p|div|li|ul|ol|h[1-6]|tr|td|th|table|hr|img|section|article|figure|figcaption|blockquote"
_INLINE = "b|i|u|s|em|strong|small|big|sub|sup|span|a|font|mark|strike|del|ins|code|q|cite|abbr|center"
# An attribute has a name of letters, so `2 < 3 and 4 > 3` and `<3` are no tags.
_ATTRIBUTES = r"(?:\s+[a-zA-Z-]+(?:\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))?)*\s*/?"
_BLOCK_TAG = re.compile(rf"</?(?:{_BLOCKS}){_ATTRIBUTES}>", re.IGNORECASE)
_INLINE_TAG = re.compile(rf"</?(?:{_INLINE}){_ATTRIBUTES}>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Flickr30k Entities: `[/EN#12/people/clothing A man] sleeps`
_PHRASE = re.compile(r"\[/EN#\d+(?:/[a-z]+)+ ([^\[\]]*)\]")
# Marks of the beginning and the end of a text, and of the place of an image, that models were trained with.
_MARK = r"<\|?/?(?:s|sos|eos|bos|start|end|startoftext|endoftext|image|im_start|im_end|pad)\|?>"
_MARKS = re.compile(rf"^(?:\s*(?:{_MARK}|startseq\b|\[CLS\]))+|(?:(?:{_MARK}|\bendseq|\[SEP\]|\[PAD\])\s*)+$")
_BULLET = re.compile(r"^(?:[-*\u2022]\s+)+(?=\S)")
_BYTES = re.compile(r"""b(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_LEFT = re.compile(r"\[/?EN#[^\]]*\]?|</?[a-z][a-z0-9]*(?:\s+[a-z-]+\s*=[^<>]*)>", re.IGNORECASE)
_LAYERS = 10  # of escaping that are taken away; a limit, as a long text could have thousands
_LONGEST = 20_000  # characters; a longer text is refused anyway


def without_markup(text: str) -> str:
    """A caption without HTML, `A man&#39;s <b>red</b> hat` -> `A man's red hat`; without the marks of phrases in
    Flickr30k Entities; without marks at its ends, `<start> a dog <end>`, bullets, and Python's `b'…'` of bytes.
    """
    # `&amp;amp;` was escaped twice, and what is unescaped may be a tag: again, until nothing changes.
    for _ in range(_LAYERS):
        if len(text) > _LONGEST or not _SIGNS.search(text):
            break
        before = text
        text = _without_one_layer(text)
        if text == before:
            break
    return text


def _without_one_layer(text: str) -> str:
    """A caption without marks, where each sign of HTML is unescaped once: `&amp;lt;b&amp;gt;` -> `&lt;b&gt;`."""
    if _BYTES.fullmatch(text):
        text = _decode_printed_bytes(text)
    # Entities first: `&lt;b&gt;` is a tag that was escaped.
    text = _ENTITY.sub(lambda entity: html.unescape(entity.group()), text)
    if "<" in text:
        text = _INLINE_TAG.sub("", _BLOCK_TAG.sub(" ", _COMMENT.sub(" ", text)))
    text = _PHRASE.sub(r"\1", text)
    return _BULLET.sub("", _MARKS.sub("", text).strip())


def mark_in(text: str) -> str:
    """A mark that is left in a cleaned caption, such as a phrase of Flickr30k Entities that is not closed, or ""."""
    mark = _LEFT.search(text) if "[" in text or "<" in text else None
    return mark.group() if mark else ""


def _decode_printed_bytes(written: str) -> str:
    """The text in bytes as Python prints them; as it is if they are not UTF-8."""
    try:
        return ast.literal_eval(written).decode()
    except (ValueError, SyntaxError, UnicodeDecodeError):
        return written
