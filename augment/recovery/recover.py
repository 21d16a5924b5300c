"""Tell what a negative of unknown origin changes in its caption: which word is replaced by which, what is swapped."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import NamedTuple

from ..caption import Caption
from ..edits import Candidate, Edit, exchanged
from ..language.wordnet import first_sense
from ..slots.nouns import attribute_slots, noun_slots, quantity_slots
from ..slots.verbs import preposition_uses

Span = tuple[int, int, int, int]  # tokens of the caption, start and end; of the negative, start and end
NEGATIONS = frozenset({"no", "not", "without", "never", "none", "nobody", "nothing", "neither", "nor", "n't"})
REWRITE = "rewrite"
# What a negative may turn out to be -> its family.
FAMILIES_OF = {
    "replace_noun": "noun",
    "replace_numeral": "numeral",
    "replace_preposition": "relation",
    "replace_verb": "relation",
    "replace_attribute": "attribute",
    "swap": "relation",
    "swap_attribute": "attribute",
    "add": "object",
    "remove": "object",
    "negate": "negation",
    REWRITE: "other",
}
_PIECE = re.compile(r"\s+|[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_")


class Slot(NamedTuple):
    """A word or phrase that may be replaced: tokens `start` to `end` (exclusive), its entry, and its head's index.

    kind: as `Candidate.change`. of: the tokens that `Candidate.slots` names. operator: what replacing it is called.
    """

    kind: str
    start: int
    end: int
    entry: str
    of: tuple[int, ...]
    operator: str


class Recovered(NamedTuple):
    """What a negative does to its caption: the operator, a key of FAMILIES_OF, and the change."""

    operator: str
    candidate: Candidate


def recover(caption: Caption, negative: Caption) -> Recovered:
    """What turned a caption into a negative; both parsed.

    The edits are those of `align`. `replaced` and `replacement` are lexicon entries where both parses agree on what
    kind of word stands there, else the words as written. Words that only follow the change ("a" to "an", "is" to "are",
    "his" to "her") do not count. The candidate of equal texts is rejected as `unchanged`.
    """
    edits = align(caption.text, negative.text)
    if not edits or caption.text.lower() == negative.text.lower():
        return Recovered(REWRITE, Candidate("none", edits, (), "", "", rejected="unchanged"))
    spans = _spans(caption, negative, edits)
    main = [span for span in spans if not _follows(caption, negative, span)] or spans
    old = [" ".join(caption.lowered[a:b]) for a, b, _, _ in main]
    new = [" ".join(negative.lowered[c:d]) for _, _, c, d in main]
    plain = Candidate("none", edits, (), " | ".join(old), " | ".join(new))
    if len(main) == 2 and (swapped := _swapped(caption, negative, main, edits)):
        return swapped
    if Counter(caption.lowered) == Counter(negative.lowered):
        return Recovered("swap", plain)
    said = [{word for a, b, *_ in main for word in caption.lowered[a:b]}, set(" ".join(new).split())]
    if any(NEGATIONS & words for words in said):
        return Recovered("negate", plain)
    whole = main[0][0], main[-1][1], main[0][2], main[-1][3]
    if (found := _replaced(caption, negative, whole)) is not None:
        before, after = found
        senses = (first_sense(before.entry), first_sense(after.entry)) if before.kind == "noun" else (None, None)
        change = Candidate(before.kind, edits, before.of, before.entry, after.entry, *senses)  # type: ignore[arg-type]
        return Recovered(before.operator, change)
    if not any(old):
        return Recovered("add", plain._replace(replaced=""))
    return Recovered("remove" if not any(new) else REWRITE, plain)


def align(caption: str, text: str) -> tuple[Edit, ...]:
    """The edits of whole words that turn `caption` into `text`: apply(caption, align(caption, text)) == text.

    Disjoint, in order, and as short as they can be. Neighbouring words are edits of their own where one word takes the
    place of one ("an orange" -> "a grey"), and else one edit ("in front of" -> "next to"). A word that is put in brings
    the space behind it; before it, at the end of the text. Equal texts: none.
    """
    old, new = _PIECE.findall(caption), _PIECE.findall(text)
    starts = [0, *accumulate(map(len, old))]
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    runs: list[list[tuple[int, int, int, int]]] = []  # neighbouring spans of pieces: start and end in old, in new
    for tag, *(a, b, c, d) in opcodes:
        if tag == "equal":
            continue
        if runs and "".join(old[runs[-1][-1][1] : a]).isspace():
            runs[-1].append((a, b, c, d))
        else:
            runs.append([(a, b, c, d)])
    spans = []
    for run in runs:
        alone = all(b - a == 1 == d - c for a, b, c, d in run)
        spans += run if alone else [(run[0][0], run[-1][1], run[0][2], run[-1][3])]
    return tuple(_tidy(caption, Edit(starts[a], starts[b], "".join(new[c:d]))) for a, b, c, d in spans)


def _tidy(caption: str, edit: Edit) -> Edit:
    """An edit without white space that both sides have at an end; " red" put in becomes "red " one place on."""
    start, end, new = edit
    while start < end and new and caption[start] == new[0] and new[0].isspace():
        start, new = start + 1, new[1:]
    while start < end and new and caption[end - 1] == new[-1] and new[-1].isspace():
        end, new = end - 1, new[:-1]
    if start == end and new[:1].isspace() and caption[start : start + 1] == new[0]:
        return Edit(start + 1, end + 1, new[1:] + new[0])
    return Edit(start, end, new)


def least(caption: str, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The same change with each edit cut to the words that differ, and words put in as early as they can be.

    Edits that people or operators wrote down may hold words that stay ("dog" -> "green dog"); the least edits of a
    change are the same however it is written down.
    """
    made = []
    for edit in edits:
        start, end, new = edit
        while (first := _PIECE.match(caption, start, end)) and new.startswith(first[0]):
            start, new = first.end(), new[len(first[0]) :]
        while (rest := _PIECE.findall(caption[start:end])) and _PIECE.findall(new)[-1:] == rest[-1:]:
            end, new = end - len(rest[-1]), new[: len(new) - len(rest[-1])]
        if start == end:
            pieces = _PIECE.findall(new)
            while (before := _PIECE.findall(caption[:start])) and pieces and before[-1] == pieces[-1]:
                start, pieces = start - len(pieces[-1]), [pieces[-1], *pieces[:-1]]
            end, new = start, "".join(pieces)
        if start != end or new:
            made.append(Edit(start, end, new))
    joined: list[Edit] = made[:1]
    for left, right in pairwise(made):
        if left.end == right.start:
            joined[-1] = Edit(joined[-1].start, right.end, joined[-1].new + right.new)
        else:
            joined.append(right)
    return tuple(joined)


def _spans(caption: Caption, negative: Caption, edits: tuple[Edit, ...]) -> list[Span]:
    """The tokens that each edit takes out of the caption, and those that it puts into the negative."""
    spans, shift = [], 0
    for start, end, new in edits:
        first, last = start + shift, start + shift + len(new)
        spans.append((*_inside(caption, start, end), *_inside(negative, first, last)))
        shift += len(new) - (end - start)
    return spans


def _inside(caption: Caption, start: int, end: int) -> tuple[int, int]:
    """The tokens that have a character from `start` to `end`, as start and end (exclusive)."""
    inside = [token.index for token in caption.tokens if token.start < end and start < token.end]
    before = sum(token.start < start for token in caption.tokens)
    return (inside[0], inside[-1] + 1) if inside else (before, before)


def _follows(caption: Caption, negative: Caption, span: Span) -> bool:
    """Whether an edit only makes a word agree: an article, another form of a verb, a pronoun."""
    a, b, c, d = span
    if b - a != 1 or d - c != 1:
        return False
    old, new = caption.tokens[a], negative.tokens[c]
    if old.lower in ("a", "an") and new.lower in ("a", "an"):
        return True
    verbs = old.pos in ("VERB", "AUX") and new.pos in ("VERB", "AUX") and old.lemma == new.lemma
    return verbs or (old.tag.startswith("PRP") and new.tag.startswith("PRP"))


def _slots(caption: Caption) -> list[Slot]:
    """What may be replaced in a caption, the most specific kinds first."""
    found = [
        Slot("quantity", q.index, q.index + 1, q.entry, (q.noun,), "replace_numeral") for q in quantity_slots(caption)
    ]
    for one in attribute_slots(caption):
        found.append(Slot("attribute", one.index, one.index + 1, one.entry, (one.index, one.noun), "replace_attribute"))
    for use in preposition_uses(caption):
        of = (use.start, use.object.index)
        found.append(Slot("preposition", use.start, use.end, use.entry, of, "replace_preposition"))
    for noun in noun_slots(caption):
        found.append(Slot("noun", noun.start, noun.end, noun.entry, (noun.root,), "replace_noun"))
    for token in caption.tokens:
        if token.tag.startswith("VB") and token.pos != "AUX":
            found.append(Slot("verb", token.index, token.index + 1, token.lemma, (token.index,), "replace_verb"))
    return found


def _replaced(caption: Caption, negative: Caption, span: Span) -> tuple[Slot, Slot] | None:
    """The slot of the caption in which all that is changed lies, and the slot of the negative in its place, if alike.

    A number may take its noun along ("a dog" -> "two dogs"), and a noun its article.
    """
    a, b, c, d = span
    there = _slots(negative)
    for slot in _slots(caption):
        start, end = slot.start, slot.end
        inside = start <= a and b <= end
        others = [other for other in there if other.kind == slot.kind and other.entry != slot.entry]
        if slot.kind == "quantity":
            noun = caption.tokens[slot.of[0]]
            if start == a and a < b:
                lemmas = {token.lemma for token in negative.tokens[c:d]}
                inside = b <= noun.index + 1 and (b == end or noun.lemma in lemmas)
            alike = [o for o in others if o.start == c and noun.lemma == negative.tokens[o.of[0]].lemma]
        else:
            if slot.kind == "noun" and not inside and a == start - 1 and caption.lowered[a] in ("a", "an"):
                inside, start = b <= end, a
            # As many tokens of the slot stay before the change and behind it.
            first, last = c - (a - start) + (start < slot.start), d + end - b
            alike = [other for other in others if (other.start, other.end) == (first, last)]
        if inside and alike:
            return slot, alike[0]
    return None


def _swapped(caption: Caption, negative: Caption, main: list[Span], edits: tuple[Edit, ...]) -> Recovered | None:
    """Two nouns, or two attributes, that have changed places."""
    (a, b, c, d), (e, f, g, h) = main
    one, other = caption.lowered[a:b], caption.lowered[e:f]
    if not one or not other or negative.lowered[c:d] != other or negative.lowered[g:h] != one:
        return None
    nouns = [n for x, y in ((a, b), (e, f)) for n in noun_slots(caption) if x <= n.root < y]
    if len(nouns) == 2:
        first, second = nouns
        words, senses = exchanged(first.entry, second.entry), (first_sense(first.entry), first_sense(second.entry))
        return Recovered("swap", Candidate("swap", edits, (first.root, second.root), *words, *senses))
    attributes = [s for x, y in ((a, b), (e, f)) for s in attribute_slots(caption) if x <= s.index < y]
    if len(attributes) == 2:
        left, right = attributes
        words = exchanged(left.entry, right.entry)
        return Recovered("swap_attribute", Candidate("attribute_swap", edits, (left.noun, right.noun), *words))
    return Recovered("swap", Candidate("none", edits, (), *exchanged(" ".join(one), " ".join(other))))


def word_slots(caption: Caption) -> list[tuple[str, int]]:
    """(kind, token index) of each place where one word may be replaced by another of its kind, in text order.

    Kinds: noun (its last word), attribute, preposition, verb, quantity.
    """
    found: dict[int, str] = {}
    for slot in _slots(caption):
        index = slot.end - 1
        if slot.end - slot.start == 1 or slot.kind == "noun":
            found.setdefault(index, slot.kind)
    return [(kind, index) for index, kind in sorted(found.items()) if caption.lowered[index] not in ("a", "an")]
