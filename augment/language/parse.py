"""Parse captions with a spaCy pipeline, shipped or installed. No other module imports spaCy.

Three errors are repaired that small parsers often make in captions: wrong subjects of second and of inverted clauses,
and the ways that somebody goes. "A boy is behind [a house and three apples] are sitting": the noun before a finite verb
without a subject becomes its subject. "On [a desk] [sits a keyboard]": the noun before the verb becomes the object of
the preposition, and the noun after it the subject. "A skier [goes up] a hill": "up" becomes a preposition of "hill".

spaCy's attribute ruler matches about 180 patterns in each text, which takes a fifth of the parsing time. Its rules look
at the tag and the dependency label of a token, and at the word itself only if it is one of 19. So the ruler is run once
for each combination of these, and its result is used for all other tokens with the same combination.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.captions import PARSES
from ..caption import MAX_TOKENS, Caption, from_parses
from ..cloze.network import single_threaded
from ..data import data_path

if TYPE_CHECKING:
    import pyarrow as pa
    from spacy.language import Language
    from spacy.strings import StringStore
    from spacy.tokens import Doc

SHIPPED = data_path("english_parser")
UNUSED = ("ner", "senter", "textcat")  # parts of a spaCy model that are not loaded
NEEDED = ("tagger", "parser")  # parts that it must have
CACHED_RULER = "negcap_cached_attribute_ruler"  # the name of CachedAttributeRuler among spaCy's parts
# So many texts are parsed together, or fewer of more tokens: memory grows by about 15 KB a token.
TEXTS = 512
TOKENS = 16_384
# Hashtags, links and emoji, which are no part of the sentence that they stand behind; neither model has read any.
# Behind one of the words OPEN they are a part of it: "walking my #dog".
BEHIND = re.compile(r"#(?=\w*[^\W\d])\w+[.,]?|https?://\S+|[^\w\s\x00-\x7f]+")
OPEN = frozenset("a an the my your his her our their this that of in on at to with for by and or".split())
# For repairs, Penn tags and dependency labels.
FINITE = {"VBZ", "VBP", "VBD"}
SINGULAR = {"NN", "NNP"}
PLURAL = {"NNS", "NNPS"}
AGREEING = {"VBZ": SINGULAR, "VBP": PLURAL, "VBD": SINGULAR | PLURAL}  # the nouns that agree with a finite verb
SUBJECTS = {"nsubj", "nsubjpass", "expl"}
AUXILIARIES = {"aux", "auxpass"}
FIRST = {"IN", "RB", "VBG", "VBN"}  # tags of the first word of a clause that may be inverted: "On a desk sits …"
FRONTED = {"prep", "csubj", "advmod", "punct"}  # labels of what may stand before its verb
# Verbs of going, which have no object: "up" and "down" behind them are prepositions ("walks up a hill"), not particles
# as in "picks up a ball".
GOING = frozenset(
    "climb come crawl cycle dash descend drive fly glide go head hike hop jog jump leap march move paddle race ride "
    "run scramble skate skateboard ski sled slide snowboard sprint step stroll swim travel trek trot wade walk".split()
)
WAYS = ("up", "down")  # particles of GOING that are prepositions before a way: "walks down the street"
# The token attributes that rules of an attribute ruler may look at if its results are to be cached.
LOOKED_AT: list[int | str] = ["LOWER", "TAG", "DEP", "POS"]
# A rule of an attribute ruler: the `patterns` of tokens that it matches, and the `attrs` that it sets.
Rule = Mapping[str, Any]


@cache
def load_pipeline(spacy_model: str | None) -> Language:
    """Load the pipeline `spacy_model` (an installed package or a folder), or the shipped parser; once per process.

    Raises ValueError if the model is not installed, or has no tagger or no parser.
    """
    with _light_imports(torch=spacy_model is not None):
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
def _light_imports(*, torch: bool) -> Iterator[None]:
    """Let spaCy be imported without its command line, half of its import time, of which it needs only `info`.

    torch: whether torch may be imported; it would cost every worker a second and 250 MB, and the networks of the
    shipped parser are thinc's own.
    """
    package = ModuleType("spacy.cli")
    info = ModuleType("spacy.cli.info")

    def later(*args: Any, **given: Any) -> Any:
        """spaCy's `info`, imported when it is called."""
        from spacy.cli.info import info

        return info(*args, **given)

    package.__path__ = []
    info.info = later  # type: ignore[attr-defined]
    # None for torch: then `import torch` fails, as if it were not installed.
    stand_ins: dict[str, Any] = {"spacy.cli": package, "spacy.cli.info": info, **({} if torch else {"torch": None})}
    absent = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _cache_attribute_rulers(nlp: Language) -> None:
    """Replace attribute rulers by a CachedAttributeRuler where their rules allow it; the parses stay the same."""
    from spacy.language import Language

    if not Language.has_factory(CACHED_RULER):
        Language.factory(CACHED_RULER, func=lambda nlp, name: CachedAttributeRuler())
    for name in nlp.pipe_names:
        ruler: Any = nlp.get_pipe(name)
        if nlp.get_pipe_meta(name).factory == "attribute_ruler" and is_cacheable(ruler.patterns):
            cached: Any = nlp.replace_pipe(name, CACHED_RULER)
            cached.wrap(ruler)


def parse(texts: Sequence[str], spacy_model: str | None = None) -> list[Caption]:
    """Parse independent texts, for tests and interactive use; caption and image ids are positions, from 0."""
    import pyarrow as pa

    ids = [str(i) for i in range(len(texts))]
    empty = [""] * len(texts)
    table = pa.table({"caption_id": ids, "image_id": ids, "split": empty, "origin": empty, "text": list(texts)})
    return from_parses(parse_table(table, spacy_model))


def without_trailing_tags(text: str) -> str:
    """A text without the hashtags, links and emoji at its end: "A dog on a beach 😴 #dogs" -> "A dog on a beach"."""
    kept = text
    (rest, space, last) = text.rstrip().rpartition(" ")
    while space and BEHIND.fullmatch(last):
        kept = rest.rstrip()
        rest, space, last = kept.rpartition(" ")
    # What follows "the" or a number belongs to the sentence: nothing is taken off.
    return text if last.lower() in OPEN or last.isdigit() else kept


def _parse_texts(texts: Sequence[str], nlp: Language) -> Iterator[Any]:
    """The texts as spaCy's Docs, in order, parsed without their trailing tags; the Doc of a text with more tokens than
    MAX_TOKENS is empty. (The type is Any because spaCy's type stubs lack attributes of a Doc.)
    """
    batch: list[Doc] = []
    tokens = 0
    for text in texts:
        doc = nlp.make_doc(without_trailing_tags(text))
        doc = nlp.make_doc("") if len(doc) > MAX_TOKENS else doc
        if len(batch) == TEXTS or tokens + len(doc) > TOKENS:
            yield from nlp.pipe(batch, batch_size=TEXTS)
            batch = []
            tokens = 0
        batch.append(doc)
        tokens += len(doc)
    yield from nlp.pipe(batch, batch_size=TEXTS)


@single_threaded()
def parse_table(captions: pa.Table, spacy_model: str | None = None) -> pa.Table:
    """The `parses` of a table with the columns caption_id, image_id, split, origin and text, in the same row order.

    Texts of more than MAX_TOKENS tokens have neither tokens nor chunks.
    """
    import pyarrow as pa

    nlp = load_pipeline(spacy_model)
    attributes: list[int | str] = ["IDX", "LENGTH", "LEMMA", "TAG", "POS", "DEP", "HEAD"]
    arrays = [np.zeros((0, len(attributes)), np.uint64)]
    lengths = []
    chunk_counts = []
    chunks: list[tuple[int, int, int]] = []  # (start, end, root) of each noun phrase, whose last token is its root
    for doc in _parse_texts(captions.column("text").to_pylist(), nlp):
        arrays.append(doc.to_array(attributes))
        lengths.append(len(doc))
        before = len(chunks)
        chunks.extend((start, end, end - 1) for start, end, _ in doc.vocab.get_noun_chunks(doc))
        chunk_counts.append(len(chunks) - before)
    # Each attribute of the tokens of all texts, (tokens,).
    of_tokens = dict(zip(attributes, np.concatenate(arrays).T, strict=True))
    # spaCy counts heads from the token itself; here they are positions among all tokens, later among those of a text.
    heads = np.arange(len(of_tokens["HEAD"])) + of_tokens["HEAD"].astype(np.int64)
    sizes = np.array(lengths, int)
    columns_to_repair = {**{name: of_tokens[name] for name in ("LEMMA", "TAG", "DEP")}, "HEAD": heads}
    repair_parse(columns_to_repair, sizes, nlp.vocab.strings)
    heads -= np.repeat(np.cumsum(sizes) - sizes, sizes)
    start = of_tokens["IDX"].astype(np.int32)

    def strings(attribute: str, lower: bool = False) -> pa.Array:
        """The texts of an attribute of the tokens, of which spaCy gives hashes: (tokens,)."""
        hashes, inverse = np.unique(of_tokens[attribute], return_inverse=True)
        words = [nlp.vocab.strings[int(h)] for h in hashes]
        words = [word.lower() for word in words] if lower else words
        return pa.array(words, pa.string()).take(pa.array(inverse.reshape(-1)))

    def lists(column: str, counts: list[int], values: Sequence[np.ndarray | pa.Array]) -> pa.Array:
        """A column of lists of structs: `counts` has the length of each list, `values` each field of all structs."""
        type = PARSES.field(column).type
        struct = list(type.value_type)
        items = [pa.array(array, field.type) for array, field in zip(values, struct, strict=True)]
        offsets = pa.array(np.cumsum([0, *counts]), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(items, fields=struct), type=type)

    words = (strings("LEMMA", lower=True), strings("TAG"), strings("POS"), strings("DEP"))
    tokens = (start, start + of_tokens["LENGTH"].astype(np.int32), *words, heads.astype(np.int32))
    columns = [captions.column(name) for name in ("caption_id", "image_id", "split", "origin", "text")]
    columns.append(lists("tokens", lengths, tokens))
    columns.append(lists("chunks", chunk_counts, list(np.array(chunks, np.int32).reshape(-1, 3).T)))
    return pa.Table.from_arrays(columns, schema=PARSES)


def repair_parse(columns: Mapping[str, np.ndarray], lengths: np.ndarray, strings: StringStore) -> None:
    """Correct, in place, the subjects of second and inverted clauses, and "up" and "down" ("walks down a street").

    Args:
        columns: arrays over the tokens of all texts, each (tokens,). LEMMA, TAG and DEP hold hashes of `strings`; HEAD
            holds the position of each token's head among all tokens. TAG, DEP and HEAD are changed.
        lengths: the number of tokens of each text, (texts,).
        strings: a spaCy StringStore.
    """
    tags = columns["TAG"]
    deps = columns["DEP"]
    heads = columns["HEAD"]

    def among(values: np.ndarray, labels: Iterable[str]) -> np.ndarray:
        """Whether each of some hashes is that of one of these labels: a mask of their shape."""
        return np.isin(values, np.array([strings[label] for label in sorted(labels)], np.uint64))

    _repair_ways(columns, among, strings)
    finite = np.flatnonzero(among(tags, FINITE))
    main = np.where(among(deps[finite], AUXILIARIES), heads[finite], finite)  # "flying" for "is" in "is flying"
    has_subject = np.zeros(len(tags), bool)
    has_subject[heads[among(deps, SUBJECTS)]] = True
    # For each finite verb, where its text starts among all tokens, and where it ends (exclusive).
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)[finite]
    ends = np.repeat(np.cumsum(lengths), lengths)[finite]
    nouns = among(tags, SINGULAR | PLURAL)
    # Masks over the finite verbs, by which most are passed over: only for few the tokens around them are looked at.
    behind_noun = (finite > starts) & nouns[finite - 1]
    fronted = among(tags[starts], FIRST) if len(finite) else behind_noun  # which is empty then, too
    for number in np.flatnonzero(behind_noun & (fronted | ~has_subject[main])).tolist():
        verb = int(main[number])
        text = _Text(columns, int(starts[number]), int(ends[number]), strings)
        if not has_subject[verb]:
            text.repair_second_clause(int(finite[number]), verb)
        if fronted[number]:
            text.repair_inversion(int(finite[number]), verb)


def _repair_ways(
    columns: Mapping[str, np.ndarray], among: Callable[[np.ndarray, Iterable[str]], np.ndarray], strings: StringStore
) -> None:
    """Turn "up" or "down" into a preposition where its object follows: "walks down a street", "pulls a sled up a hill".

    That is so after a verb of GOING, and after one that has an object of its own before the particle.

    columns: TAG, DEP, HEAD and LEMMA of all tokens, see `repair_parse`; the first three are changed. among: tells of
    each hash in an array whether it is that of one of some labels. strings: a spaCy StringStore.
    """
    deps = columns["DEP"]
    heads = columns["HEAD"]
    lemmas = columns["LEMMA"]
    is_way = among(deps, ("prt",)) & among(lemmas, WAYS)
    if not is_way.any():
        return
    is_going = among(lemmas[heads], GOING)
    is_object = among(deps, ("dobj",))
    # "Pulls his sled up (the hill)", whose particle has an object by the parse.
    has_object = np.zeros(len(deps), bool)
    has_object[heads[among(deps, ("pobj",))]] = True
    for way in np.flatnonzero(is_way).tolist():
        if has_object[way]:
            columns["TAG"][way] = strings.add("IN")
            deps[way] = strings.add("prep")
            continue
        verb = heads[way]
        objects = np.flatnonzero(is_object & (heads == verb))
        following = objects[objects > way]
        if not len(following) or not (is_going[way] or objects[0] < way):
            continue
        # Directly after it: all words between depend on the object, as "a" in "down a street" does. "Gives a thumbs up
        # sign" has nothing between, and is no way.
        between = heads[way + 1 : following[0]]
        if (between == following[0]).all() and (is_going[way] or len(between)):
            columns["TAG"][way] = strings.add("IN")
            deps[way] = strings.add("prep")
            deps[following[0]] = strings.add("pobj")
            heads[following[0]] = way


@dataclass(frozen=True)
class _Text:
    """One text: the tokens `start` to `end` (exclusive) in the columns TAG, DEP and HEAD of all texts."""

    columns: Mapping[str, np.ndarray]
    start: int
    end: int
    strings: StringStore

    def tag(self, token: int) -> str:
        """The Penn tag of a token."""
        return self.strings[int(self.columns["TAG"][token])]

    def dep(self, token: int) -> str:
        """The dependency label of a token."""
        return self.strings[int(self.columns["DEP"][token])]

    def head(self, token: int) -> int:
        """The token that a token depends on."""
        return int(self.columns["HEAD"][token])

    def children(self, head: int) -> list[int]:
        """The tokens that depend on a token, in text order."""
        below = np.flatnonzero(self.columns["HEAD"][self.start : self.end] == head) + self.start
        return [int(child) for child in below if child != head]

    def attach(self, token: int, head: int, dep: str | None = None) -> None:
        """Let a token depend on another, with a label; None: with the one that it has."""
        self.columns["HEAD"][token] = head
        if dep:
            self.columns["DEP"][token] = self.strings.add(dep)

    def repair_second_clause(self, finite: int, verb: int) -> None:
        """Make the last conjunct of a noun phrase the subject of the verb directly after it, if they agree.

        "A man holds a bat and a ball flies": "ball", parsed as a conjunct of "bat", becomes the subject of "flies".
        finite: the word of the second verb that agrees with a subject ("is" of "is flying"). verb: this verb itself.
        """
        # "A man holds [a bat] and [a ball] flies": holds, bat, ball and flies, as the parser has joined them.
        noun = finite - 1
        first_verb = self.head(verb)
        first_conjunct = self.head(noun)
        if self.dep(verb) != "conj" or self.dep(noun) != "conj" or self.tag(noun) not in AGREEING[self.tag(finite)]:
            return
        has_subject = any(self.dep(child) in SUBJECTS for child in self.children(first_verb))
        if not first_verb < first_conjunct < noun or self.tag(first_verb)[:2] != "VB" or not has_subject:
            return
        self.attach(noun, verb, "nsubj")
        # The "and" between the nouns joins the verbs.
        for child in self.children(first_conjunct):
            if first_conjunct < child < noun and self.dep(child) in ("cc", "punct"):
                self.attach(child, first_verb)

    def repair_inversion(self, finite: int, verb: int) -> None:
        """Make the noun after a verb its subject if the clause begins with a prepositional or participle phrase.

        "On a desk sits a keyboard": "keyboard" becomes the subject. finite: the word that agrees with a subject, "sits"
        or the "is" of "is sitting". verb: the verb itself.
        """
        dependents = self.children(verb)
        before = [child for child in dependents if child < finite]
        first = self.start
        subject = next((child for child in before if self.dep(child) == "nsubj"), None)
        if subject is not None:
            # The parser takes the desk for the subject, and leaves "on" without an object: this must be the case.
            is_alone = all(self.head(token) != verb for token in range(first + 1, finite) if token != subject)
            if self.dep(first) != "prep" or self.head(first) != verb or self.children(first) or not is_alone:
                return
        if any(self.dep(child) not in FRONTED for child in before if child != subject):
            return
        nouns = [child for child in dependents if child > max(finite, verb) and self.tag(child) in SINGULAR | PLURAL]
        if not nouns or self.dep(nouns[0]) not in ("dobj", "attr", "nsubj"):
            return
        if subject is not None:
            self.attach(subject, first, "pobj")
        self.attach(nouns[0], verb, "nsubj")


def is_cacheable(rules: Iterable[Rule]) -> bool:
    """Whether all rules (a ruler's `patterns`) match single tokens by attributes in `LOOKED_AT` and set only POS.

    A rule that looks at a word must name it: {"LOWER": "be"}, not {"LOWER": {"REGEX": "^b"}}.
    """
    return all(
        rule["attrs"].keys() == {"POS"}
        and all(
            len(tokens) == 1 and tokens[0].keys() <= set(LOOKED_AT) and isinstance(tokens[0].get("LOWER", ""), str)
            for tokens in rule["patterns"]
        )
        for rule in rules
    )


def named_words(rules: Iterable[Rule]) -> frozenset[str]:
    """The lower-case words that rules look for, such as "be" in {"TAG": "VB", "LOWER": "be"}."""
    tokens = [token for rule in rules for pattern in rule["patterns"] for token in pattern]
    return frozenset(token["LOWER"] for token in tokens if "LOWER" in token)


class CachedAttributeRuler:
    """A pipeline component that runs an attribute ruler, whose rules must be `is_cacheable`, only for unknown tokens.

    Two tokens get the same part of speech if they have the same tag, dependency label and part of speech before, and if
    both are the same word that a rule names, or both are words that no rule names.
    """

    ruler: Callable[[Doc], Doc]

    def __init__(self) -> None:
        """Make a component without a ruler, as spaCy makes components by name; `wrap` gives it one."""
        self._named_words: frozenset[int] = frozenset()
        self._known: dict[tuple[int, ...], int] = {}

    def wrap(self, ruler: Any) -> None:
        """Use the results of `ruler`, a spaCy AttributeRuler."""
        self.ruler = ruler
        self._named_words = frozenset(ruler.vocab.strings.add(word) for word in named_words(ruler.patterns))

    def __call__(self, doc: Doc) -> Doc:
        """Set the part of speech of each token of a Doc."""
        named = self._named_words
        tokens = [
            (word if word in named else 0, tag, dep, part_of_speech)
            for word, tag, dep, part_of_speech in doc.to_array(LOOKED_AT).tolist()
        ]
        try:
            answers = [self._known[token] for token in tokens]
        except KeyError:  # one new token: the ruler is run on the whole text, and what it says of each is kept
            doc = self.ruler(doc)
            self._known.update(zip(tokens, doc.to_array("POS").tolist(), strict=True))
            return doc
        parts_of_speech: Any = np.array(answers, np.uint64)
        return doc.from_array("POS", parts_of_speech)
