"""What users are warned of when captions are read: records that were left out, and captions that are not what negcap
is made for. Captions are looked at in a sample, so that a warning costs a second at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ...augment.lexicon.nearness import reference_shares, reference_weight
from ...schemas.captions import LANGUAGE
from ...schemas.messages import number_of
from ..engine.manifest import read_manifest
from ..engine.tables import read_table, shards_of
from ..readers.record import MAX_CAPTIONS, ReadOptions
from .columns import TableRow

# The sample: so many shards, evenly spread, as sources put together differ from one end to the other, and the first
# captions of each.
SHARDS = 8
CAPTIONS = 250
# From these shares on the user is told; below, a warning would cry wolf over the odd record that every set has.
NOT_ENGLISH = 0.05  # of captions
REJECTED = 0.02  # of records
REPEATED = 0.01  # of captions that are one text
LEAST_REPEATED = 10  # in a small set a few captions may be equal by chance
ASKED_FOR = ("other_language", "boilerplate", "duplicate_text", "near_duplicate_text")  # reasons that users set
# Share of words in -s, -ed or -ing: 0.17 to 0.35 in six sets of captions, 0.01 to 0.06 in the same ones as lemmas.
INFLECTED = 0.09
LEAST_WORDS = 100  # of fewer words the share says little
TRAIN_FURTHER = (
    "it helps most to train the model that judges them further on these captions: "
    "python -m negcap.pipelines.resources cloze CAPTIONS --continue shipped --output own.npz (with negcap[train]), "
    "and to build with --set cloze=own.npz"
)
ADVICE = {  # by counter
    "images_in_two_splits": "images with captions in more than one split: {}",
    "rejected.ambiguous_image": "records rejected as their image has the file name of another image: {}; "
    "--columns id=… (id_column= in Python) names a column that identifies images, such as one of URLs; given the "
    "column of the images themselves, it takes their whole paths",
    "rejected.too_many_captions": f"records rejected as their image has more than {MAX_CAPTIONS:,} captions: {{}}; "
    "--columns image=… names a column that tells the images apart",
    "rejected.not_utf8": "records rejected as they are not UTF-8: {}; if the file is of Windows or Latin-1, "
    "iconv -f CP1252 -t UTF-8 FILE > NEW converts it",
}


def reading_warnings(run: Path, counts: Mapping[str, int], options: ReadOptions) -> tuple[str, ...]:
    """Warnings about the records of a source, by the counters of ingest: those left out, and other languages."""
    warnings = []
    if options.language != "en" or options.language_column:
        read = f"from the column {options.language_column}" if options.language_column else options.language
        warnings.append(f"language is {read}: only English captions are parsed and changed")
    warnings += [text.format(f"{counts[name]:,}") for name, text in ADVICE.items() if counts.get(name)]
    return (*warnings, *_warn_many_rejected(run, counts))


def _warn_many_rejected(run: Path, counts: Mapping[str, int]) -> Iterator[str]:
    """A warning, with the commonest reason and a record, if more than 2 % of all records were rejected."""
    prefix = "rejected."
    by_reason = Counter({name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)})
    for reason in ASKED_FOR:
        del by_reason[reason]  # which a Counter also allows for reasons that it does not have
    rejected = by_reason.total()
    kept = counts.get("captions", 0)
    if rejected <= REJECTED * (rejected + kept):
        return
    reason, number = by_reason.most_common(1)[0]
    records = (row for table in read_table(run, "rejected_records") for row in table.to_pylist())
    first = next(row for row in records if row["reason"] == reason)
    text = f" ({first['text'][:80]!r})" if first["text"] else ""
    yield (
        f"{rejected:,} of {number_of(rejected + kept, 'record')} rejected, most ({number:,}) as {reason}, such as "
        f"{first['source']}:{first['line']}: {first['detail']}{text}"
    )


def caption_warnings(run: Path) -> list[str]:
    """Warnings about the English captions of a run, and their nouns if a lexicon has been counted on them."""
    texts: list[str] = []
    for rows in _sample_rows(run, "captions", ("text", "language")):
        texts += [row["text"] for row in rows if row["language"] == LANGUAGE]
    warnings = [
        _warn_not_english(texts),
        _warn_repeated(texts),
        _warn_dictionary_forms(texts),
        _warn_far_from_photos(run),
    ]
    return [warning for warning in warnings if warning]


def _sample_rows(run: Path, table: str, columns: Sequence[str]) -> Iterator[list[TableRow]]:
    """The first rows of a few shards of a table, evenly spread over it."""
    shards = shards_of(run, table)
    every = max(1, ceil(len(shards) / SHARDS))
    for shard in shards[::every]:
        yield shard.read(columns).slice(0, CAPTIONS).to_pylist()


def _warn_not_english(texts: Sequence[str]) -> str:
    """A warning if many captions do not look English; "" if not, as in the functions below."""
    from ...augment.cloze.file import looks_english

    foreign = [text for text in texts if not looks_english(text)]
    if not foreign or len(foreign) < NOT_ENGLISH * len(texts):
        return ""
    return (
        f"captions that do not look English: {len(foreign):,} of {len(texts):,} sampled (e.g. {foreign[0][:80]!r}); "
        "--set languages=en (languages= in Python) rejects them, --language names their language"
    )


def _warn_repeated(texts: Sequence[str]) -> str:
    """A warning if many captions are one text."""
    text, number = max(Counter(texts).items(), key=lambda item: item[1], default=("", 0))
    if number < max(LEAST_REPEATED, REPEATED * len(texts)):
        return ""
    return (
        f"captions that are the same text: {number:,} of {len(texts):,} sampled, {text[:80]!r}; "
        "--set duplicates=true (duplicates= in Python) keeps only the first of equal captions"
    )


def _warn_dictionary_forms(texts: Sequence[str]) -> str:
    """A warning if the captions seem to be dictionary forms: too few words have an ending."""
    from ...augment.cloze.file import WORD, looks_english

    words = [word for text in texts if looks_english(text) for word in WORD.findall(text.lower())]
    inflected = sum(word.endswith(("s", "ed", "ing")) for word in words)
    if len(words) < LEAST_WORDS or inflected >= INFLECTED * len(words):
        return ""
    return (
        f"the captions seem to be dictionary forms of words, not sentences (e.g. {texts[0][:80]!r}): only "
        f"{inflected / len(words):.0%} of their words end in -s, -ed or -ing, in sentences 17 % or more; their "
        "negatives are as ungrammatical, so give the original captions instead"
    )


def _warn_far_from_photos(run: Path) -> str:
    """A warning if the lexicon was counted on captions that are far from everyday photos, by its counter `nearness`."""
    manifest = read_manifest(run / "lexicon")
    if manifest is None or "nearness" not in manifest.counts:
        return ""
    nearness = manifest.counts["nearness"] / 1000  # counters are whole numbers, so it is counted in thousandths
    if reference_weight(nearness) == 1:
        return ""
    is_noun = (pc.field("kind") == "noun") & (pc.field("place") == "")
    nouns = pa.concat_tables(read_table(run, "lexicon")).filter(is_noun)
    counted = dict(zip(nouns["entry"].to_pylist(), nouns["count"].to_pylist(), strict=True))
    total = sum(counted.values())
    shares = reference_shares()
    # First the nouns whose share among the nouns exceeds that in the reference most.
    typical = sorted(counted, key=lambda noun: (shares.get(noun, 0.0) - counted[noun] / total, noun))[:5]
    common = f"their nouns ({', '.join(typical)} …) have {nearness:.0%} in common with the reference lexicon's"
    weight = ""
    captions = manifest.counts.get("reference_captions")
    if captions is not None:
        as_much = f"as much as {captions:,} of these captions" if captions else "nothing"
        weight = f"; so that lexicon weighs {as_much}"
    truth = read_manifest(run / "truth")
    advice = f"; {TRAIN_FURTHER}" if truth is None or not truth.identity.config.get("cloze") else ""
    return (
        f"these captions differ from those of everyday photos: {common}, everyday photos 20 % or more{weight}; expect "
        f"fewer and less natural negatives, and read some (negcap show, negcap blind){advice}"
    )
