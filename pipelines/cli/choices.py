"""The valid values of flags, written out so that help and completion need no imports; a test compares them.

A new operator, preset, format or model must be added to its list here.
"""

from __future__ import annotations

from typing import Any

import click

from ...augment.settings import word

OPERATORS = (
    *("noun", "numeral", "shuffle", "preposition"),
    *("object", "attribute", "relation", "swap_attribute", "verb"),
    *("negation", "true_negation", "paraphrase"),
    *("uniform_noun", "uniform_numeral", "uniform_shuffle", "uniform_preposition"),
    *("uniform_object", "uniform_attribute", "uniform_relation"),
)
STAGES = ("ingest", "parse", "lexicon", "components", "truth", "balance", "negatives")
RECOVERED = (  # what negatives that others wrote turn out to do
    *("replace_noun", "replace_numeral", "replace_preposition", "replace_verb", "replace_attribute"),
    *("swap", "swap_attribute", "add", "remove", "negate", "rewrite"),
)
PRESETS = ("vse-c", "univse", "negation", "all", "vse-c-paper", "univse-paper")
FAMILIES = ("noun", "numeral", "relation", "object", "attribute", "negation", "other", "positive")
REASONS = (
    *("related_in_caption", "related_in_sibling", "overlap_in_caption", "overlap_in_sibling"),
    *("same_quantity", "sibling_quantity", "preposition_overlap", "interchangeable", "dangling_pronoun"),
    *("ungrammatical", "unchanged", "caption_says_so", "sibling_says_so", "likely_true", "implausible", "repeated"),
    *("too_long", "operator_error"),
)
READ = ("coco", "karpathy", "flickr", "multi30k", "vsepp", "table", "webdataset", "lines")
PUBLISHED = (
    *("sugarcrepe", "sugarcrepe++", "aro", "negclip", "vse-c", "webdataset", "huggingface", "snli", "coco"),
    *("clip_benchmark", "lmms-eval", "negbench", "valse"),
)
KINDS = ("replace_object", "replace_attribute", "replace_relation", "swap", "add", "negate", "free")
READINGS = ("blind", "image")
PICKS = ("first", "random")
CONTRASTIVE = ("infonce", "siglip", "negclip", "ce-clip")
MODELS = ("vse", "vse++", "vse-c", "univse", "order", "mha-d", *CONTRASTIVE)
HYPERNYM_ROWS = ("transitive", "word2gauss", "symmetric", "bilinear", "order")
TRANSFORMS = ("root", "l2", "none")
RECIPES = ("house", "paper")
SIMILARITIES = ("cosine", "order", "order-signed", "order-reversed")
DEVICES = ("auto", "cpu", "cuda")
PHASES = ("mle", "gan")
TASKS = ("words", "blanks")
DECODINGS = ("sample", "greedy", "beam")


class Choice(click.Choice):
    """A parameter type with a list of valid words. The error for any other lists them and the most similar one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a valid word; raise UsageError otherwise: `--pick must be one of first, random, was: fist; did …`."""
        try:
            return word(param.opts[0] if param is not None else "value", str(value), self.choices)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None
