"""Parse captions with a spaCy pipeline, shipped or installed. No other module imports spaCy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...schemas.parses import PARSES
from ..caption import MAX_TOKENS, Caption, from_parses
from ..cloze.threads import single_threaded
from ..data import data_path
from .attribute_ruler import CachedAttributeRuler, is_cacheable
from .repair import repair_parse

if TYPE_CHECKING:
    import pyarrow as pa
    from spacy.language import Language

SHIPPED = data_path("english_parser")
UNUSED = ("ner", "senter", "textcat")
NEEDED = ("tagger", "parser")
CACHED_RULER = "negcap_cached_attribute_ruler"
# So many texts are parsed together, or fewer of more tokens: memory grows by about 15 KB a token.
TEXTS, TOKENS = 512, 16_384


def load(spacy_model: str | None = None) -> Language:
    """Load the pipeline `spacy_model` (an installed package or a folder), or the shipped parser; once per process.

    Raises ValueError if the model is not installed, or has no tagger or no parser.
    """
    return _load(spacy_model)


@cache
def _load(spacy_model: str | None) -> Language:
    # The shipped parser's networks are thinc's own; importing torch would cost every worker a second and 250 MB.
    with _substituted({"torch": None} if spacy_model is None else {}, _command_line()):
        import spacy

    try:
        nlp = spacy.load(spacy_model or SHIPPED, exclude=list(UNUSED))
    except OSError as error:
        raise ValueError(
            f"spacy model must be an installed package or a folder, was: {spacy_model or SHIPPED} "
            f"(install one with pip, or leave --spacy-model out to use the shipped parser)"
        ) from error
    missing = [name for name in NEEDED if name not in nlp.pipe_names]
    if missing:
        raise ValueError(f"spacy model {spacy_model} must have {' and '.join(NEEDED)}, lacks: {missing}")
    from .exact import make_exact

    make_exact(nlp)
    _cache_attribute_rulers(nlp)
    return nlp


@contextmanager
def _substituted(*modules: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """Temporarily put these objects in place of modules that are not imported yet; None makes their import fail."""
    absent = {name: module for group in modules for name, module in group.items() if name not in sys.modules}
    sys.modules.update(absent)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _command_line() -> dict[str, ModuleType]:
    """Stand-ins for spaCy's command line modules, half of its import time; spaCy needs only `info` of them."""
    package, info = ModuleType("spacy.cli"), ModuleType("spacy.cli.info")

    def later(*args: Any, **given: Any) -> Any:
        from spacy.cli.info import info

        return info(*args, **given)

    package.__path__ = []
    info.info = later  # type: ignore[attr-defined]
    return {"spacy.cli": package, "spacy.cli.info": info}


def _cache_attribute_rulers(nlp: Language) -> None:
    """Replace attribute rulers by a CachedAttributeRuler where their rules allow it; the parses stay the same."""
    from spacy.language import Language

    if not Language.has_factory(CACHED_RULER):
        Language.factory(CACHED_RULER, func=lambda nlp, name: CachedAttributeRuler())
    rulers = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "attribute_ruler"]
    for name in rulers:
        ruler: Any = nlp.get_pipe(name)
        if is_cacheable(ruler.patterns):
            cached: Any = nlp.replace_pipe(name, CACHED_RULER)
            cached.ruler = ruler


def identity(spacy_model: str | None = None) -> str:
    """Language, name and version of a pipeline, e.g. `en_negcap_captions-1.0.0`: recorded as provenance of parses."""
    meta = load(spacy_model).meta
    return f"{meta['lang']}_{meta['name']}-{meta['version']}"


def parse(texts: Sequence[str], spacy_model: str | None = None) -> list[Caption]:
    """Parse independent texts, for tests and interactive use; caption and image ids are positions, from 0."""
    import pyarrow as pa

    ids = [str(i) for i in range(len(texts))]
    empty = [""] * len(texts)
    table = pa.table({"caption_id": ids, "image_id": ids, "split": empty, "origin": empty, "text": list(texts)})
    return from_parses(parse_table(table, spacy_model))


def _docs(texts: Sequence[str], nlp: Language) -> Iterator[Any]:
    """The parsed texts in order; those of more than MAX_TOKENS tokens are empty."""
    batch: list[Any] = []
    tokens = 0
    for text in texts:
        doc = nlp.make_doc(text)
        if len(doc) > MAX_TOKENS:
            doc = nlp.make_doc("")
        if len(batch) == TEXTS or tokens + len(doc) > TOKENS:
            yield from nlp.pipe(batch, batch_size=TEXTS)
            batch, tokens = [], 0
        batch.append(doc)
        tokens += len(doc)
    yield from nlp.pipe(batch, batch_size=TEXTS)


@single_threaded()
def parse_table(captions: pa.Table, spacy_model: str | None = None) -> pa.Table:
    """The `parses` of a table with the columns caption_id, image_id, split, origin and text, in the same row order.

    Texts of more than MAX_TOKENS tokens have neither tokens nor chunks.
    """
    import numpy as np
    import pyarrow as pa

    nlp = load(spacy_model)
    attributes: list[int | str] = ["IDX", "LENGTH", "LEMMA", "TAG", "POS", "DEP", "HEAD"]
    arrays, lengths, chunk_counts = [], [], []
    chunk_rows: list[tuple[int, int, int]] = []
    for doc in _docs(captions.column("text").to_pylist(), nlp):
        arrays.append(doc.to_array(attributes))
        lengths.append(len(doc))
        before = len(chunk_rows)
        chunk_rows.extend((start, end, end - 1) for start, end, _ in doc.vocab.get_noun_chunks(doc))
        chunk_counts.append(len(chunk_rows) - before)
    matrix = np.concatenate(arrays) if arrays else np.zeros((0, len(attributes)), np.uint64)
    heads = np.arange(len(matrix)) + matrix[:, 6].astype(np.int64)
    sizes = np.array(lengths, int)
    repair_parse({"TAG": matrix[:, 3], "DEP": matrix[:, 5], "HEAD": heads}, sizes, nlp.vocab.strings)
    heads -= np.repeat(np.cumsum(sizes) - sizes, sizes)
    start = matrix[:, 0].astype(np.int32)

    def strings(column: int, lower: bool = False) -> pa.Array:
        hashes, inverse = np.unique(matrix[:, column], return_inverse=True)
        words = [nlp.vocab.strings[int(h)] for h in hashes]
        words = [word.lower() for word in words] if lower else words
        return pa.array(words, pa.string()).take(pa.array(inverse.reshape(-1)))

    def lists(counts: list[int], type: pa.DataType, values: list[Any]) -> pa.Array:
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        struct = type.value_type
        items = pa.StructArray.from_arrays(
            [pa.array(v, f.type) for v, f in zip(values, struct, strict=True)], fields=list(struct)
        )
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=type)

    tokens = [
        start,
        start + matrix[:, 1].astype(np.int32),
        strings(2, lower=True),
        strings(3),
        strings(4),
        strings(5),
        heads.astype(np.int32),
    ]
    chunks = np.array(chunk_rows, np.int32).reshape(-1, 3)
    kept = [captions.column(name) for name in ("caption_id", "image_id", "split", "origin", "text")]
    return pa.Table.from_arrays(
        [
            *kept,
            lists(lengths, PARSES.field("tokens").type, tokens),
            lists(chunk_counts, PARSES.field("chunks").type, list(chunks.T)),
        ],
        schema=PARSES,
    )
