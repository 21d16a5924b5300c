"""Which captions of the web are refused on demand: in another language, boilerplate, repetitions of earlier ones.
Repetitions have a key in common: of letters and digits, or, near ones, of a band of their MinHash (Broder 1997; 9 bands
of 13, as in SlimPajama), with probability 1 - (1 - J^13)^9 for a Jaccard similarity J of the sets of five letters in a
row: 1 % at J = 0.6, 40 % at 0.8, 93 % at 0.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

from ..engine.errors import require_libraries
from ..readers.record import Record, Rejected, reject

# How many times likelier another language must be. The language of three words is often told wrongly, but seldom with
# such odds: by their first three words, 97 % of English captions of COCO are kept and 1.5 % of German ones of Multi30K;
# by all their words, 100 % and 0.4 %.
ODDS = 5
BOILERPLATE = {
    rule: re.compile(pattern, re.IGNORECASE)
    for rule, pattern in {
        "file name": r"\S+\.(?:jpe?g|png|gif|webp|bmp|tiff?|svg|pdf)|"
        r"(?:img|dsc[nf]?|image|photo|pict?|screenshot)[-_ ]?\d+",
        "web address": r".*(?:https?://|www\.\w|\w@\w+\.\w).*",
        "markup": r".*(?:</?[a-z]+[ />]|&(?:nbsp|amp|quot|lt|gt|#\d+);|\{\{|\}\}|\[/?[a-z]+(?: [^]]*)?\]).*",
        "stock phrase": r".*\b(?:click (?:here|to|on|for|image)|read more|add to cart|buy (?:it )?now|free shipping|"
        r"all rights reserved|image (?:result|source|credit|not (?:available|found))|no image|"
        r"photo (?:by|credit|courtesy)|stock (?:photo|image|vector|illustration|footage)s?|royalty[- ]free|"
        r"shutterstock|getty images|dreamstime|thumbnail|placeholder|lorem ipsum|log ?in|sign (?:in|up)|subscribe|"
        r"cookies|javascript|(?:loading|untitled|default image|related posts?))\b.*|.*(?:©|\(c\) ?(?:19|20)\d\d).*",
    }.items()
}
_WORDS = re.compile(r"[^\W\d_]{2,}")
_REPEATED = 4  # times that a caption must not have one word in a row
BANDS = 9  # of a MinHash: captions that agree in a whole band are near-duplicates
BAND_ROWS = 13  # hashes in a band
SHINGLE = 5  # letters in a row
_OTHER = re.compile(r"[\W_]+")
Check = Callable[[Record], Rejected | None]


def refusing(
    records: Iterable[Record | Rejected], languages: tuple[str, ...], boilerplate: bool
) -> Iterator[Record | Rejected]:
    """The records; captions in other languages than these (if any) and, if asked for, boilerplate become rejected."""
    checks: list[Check] = []
    if boilerplate:
        checks.append(is_boilerplate)
    if languages:
        checks.append(in_languages(languages))
    for record in records:
        rejections = (check(record) for check in checks) if isinstance(record, Record) else ()
        yield next(filter(None, rejections), record)  # the first that is not None, else the record


def in_languages(languages: tuple[str, ...]) -> Check:
    """Make a check that refuses captions in other languages, as the reason `other_language`.

    Another language must be ODDS times as likely as each of these, by py3langid. Raises ValueError for a language that
    the library does not know, ImportError without it.
    """
    require_libraries("languages needs py3langid: pip install 'negcap[web]'", "py3langid.langid")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if unknown := sorted(set(languages) - set(identifier.labels)):
        raise ValueError(f"languages must be among those of py3langid, was: {unknown[0]}")

    def check(record: Record) -> Rejected | None:
        """Refuse a record in another language; None: it is accepted."""
        ranked = identifier.rank(record.text)  # all languages with their probabilities, the most likely first
        p_wanted = max((p for language, p in ranked if language in languages), default=0.0)
        other, p_other = next(((language, p) for language, p in ranked if language not in languages), ("", 0.0))
        if p_other < ODDS * p_wanted:
            return None
        listed = " or ".join(languages)
        return reject(record, "other_language", f"language must be {listed}, is {other}, {p_other:.0%} likely")

    return check


def is_boilerplate(record: Record) -> Rejected | None:
    """Refuse what is no caption, but was put in its place on web pages; the detail names the rule."""
    for rule, pattern in BOILERPLATE.items():
        if pattern.fullmatch(record.text):
            return reject(record, "boilerplate", f"caption must not be boilerplate, has a {rule}")
    words = [word.lower() for word in _WORDS.findall(record.text)]
    # Half of the characters must be of words, or the text is a list of numbers, a code, an address.
    if not words or 2 * sum(map(len, words)) < len(record.text.replace(" ", "")):
        return reject(record, "boilerplate", "caption must be of words, is mostly of other characters")
    windows = (words[start : start + _REPEATED] for start in range(len(words) - _REPEATED + 1))
    if any(len(set(window)) == 1 for window in windows):
        return reject(record, "boilerplate", f"caption must not say a word {_REPEATED} times in a row")
    return None


def keys(texts: Iterable[str], near: bool) -> list[list[int]]:
    """The keys of each text, 64-bit numbers: of its letters and digits and, with `near` (datasketch), of its bands."""
    # Compared without case, punctuation and spaces; near repetitions by words, with one space between.
    plain = [_OTHER.sub(" ", text.casefold()).strip() for text in texts]
    keys_of_texts = [[_hash_to_number(b"\0", text.replace(" ", "").encode())] for text in plain]
    if near:
        require_libraries("near_duplicates needs datasketch: pip install 'negcap[web]'", "datasketch")
        from datasketch import MinHash

        shingles = map(_shingles, plain)
        minhashes = MinHash.generator(shingles, num_perm=BANDS * BAND_ROWS, seed=1)
        for own_keys, minhash in zip(keys_of_texts, minhashes, strict=True):
            bands = minhash.hashvalues.astype("<u8").reshape(BANDS, BAND_ROWS)
            # The number of the band as salt: equal bands at different places say nothing.
            own_keys += [_hash_to_number(bytes([number]), band.tobytes()) for number, band in enumerate(bands, 1)]
    return keys_of_texts


def _shingles(text: str) -> list[bytes]:
    """The runs of SHINGLE letters that a text has, each once; a shorter text is the only one."""
    return list({text[start : start + SHINGLE].encode() for start in range(max(1, len(text) - SHINGLE + 1))})


def _hash_to_number(salt: bytes, value: bytes) -> int:
    """A hash of 64 bits; with another salt it is another function."""
    return int.from_bytes(blake2b(value, digest_size=8, salt=salt).digest(), "little")
