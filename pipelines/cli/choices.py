"""The words that a flag may be given, written out so that help and completion import nothing; a test compares them.

An operator, preset, format or model that is new joins its list here.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import click

OPERATORS = (
    *("noun", "numeral", "shuffle", "preposition"),
    *("object", "attribute", "relation", "swap_attribute", "verb", "paraphrase"),
)
PRESETS = ("vse-c", "univse", "all")
FAMILIES = ("noun", "numeral", "relation", "object", "attribute", "positive")
REASONS = (
    *("related_in_caption", "related_in_sibling", "overlap_in_caption", "overlap_in_sibling"),
    *("same_quantity", "sibling_quantity", "preposition_overlap", "interchangeable", "dangling_pronoun"),
    *("ungrammatical", "unchanged", "caption_says_so", "sibling_says_so", "likely_true"),
)
READ = ("coco", "karpathy", "flickr", "multi30k", "vsepp", "table")
PUBLISHED = (
    *("sugarcrepe", "sugarcrepe++", "aro", "crepe", "negclip", "open_clip", "vse-c"),
    *("webdataset", "huggingface", "coco"),
)
PICKS = ("first", "random")
MODELS = ("vse", "vse++", "vse-c", "univse")
POOLINGS = ("max", "last")
TRANSFORMS = ("root", "none")
IMAGE_POOLINGS = ("average", "max", "max-k")
COMPOSITIONS = ("average", "sum", "max")
COMPONENTS = ("obj", "attr", "rel")
DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("float16", "float32")
PHASES = ("mle", "gan")
DECODINGS = ("sample", "greedy", "beam")


class Choice(click.Choice):
    """One of some words; what is none of them is answered with the most similar one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """`'nuon' is not one of 'noun', 'numeral'. Did you mean 'noun'?`."""
        similar = get_close_matches(str(value), self.choices, 1)
        return super().get_invalid_choice_message(value, ctx) + (f" Did you mean {similar[0]!r}?" if similar else "")
