"""Find captions that say again what an earlier one says, over all parts of a source, in bounded memory.

Each caption gets keys: one of its letters and digits, and, for near duplicates, one for each band of its MinHash
(Broder 1997; banding as in SlimPajama: 9 bands of 13). Captions that share a key are brought together by sorting the
keys on disk; all but the first are duplicates. Two captions share a band with probability 1 - (1 - J^13)^9, where J is
the Jaccard similarity of their sets of five letters in a row: 1 % at J = 0.6, 40 % at 0.8, 93 % at 0.9.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

BANDS, BAND_ROWS = 9, 13
SHINGLE = 5
REASONS = ("duplicate_text", "near_duplicate_text")
_OTHER = re.compile(r"[\W_]+")


def keys_schema() -> pa.Schema:
    """Keys of captions: `key`, `position` and `hash` of the row, `reason`, an index into REASONS."""
    import pyarrow as pa

    unsigned = pa.uint64()
    return pa.schema([("key", unsigned), ("position", unsigned), ("hash", unsigned), ("reason", pa.int8())])


def duplicates_schema() -> pa.Schema:
    """Duplicates: `hash`, `position`, `reason`."""
    import pyarrow as pa

    return pa.schema([keys_schema().field(name) for name in ("hash", "position", "reason")])


def keys_of(rows: pa.RecordBatch, near: bool) -> pa.Table:
    """The keys of captions, as rows of `keys_schema`: two captions with a key in common are duplicates.

    rows: of `rows.rows_schema`. near: whether to give keys of near duplicates as well, one for each band of the
    MinHash.
    """
    import numpy as np
    import pyarrow as pa

    plain = [_OTHER.sub(" ", text.casefold()).strip() for text in rows["text"].to_pylist()]
    keys = [_hash(b"\0", text.replace(" ", "").encode()) for text in plain]
    times = 1
    if near:
        keys += _bands(plain)
        times += BANDS
    position, hash = (np.tile(rows[name].to_numpy(), times) for name in ("position", "hash"))
    reason = np.repeat(np.array([0, 1], np.int8), [len(plain), len(plain) * (times - 1)])
    return pa.table([pa.array(keys, pa.uint64()), position, hash, reason], schema=keys_schema())


def find(keys: pa.Table) -> pa.Table:
    """The duplicates, as rows of `duplicates_schema`: of the captions with the same key all but the first.

    keys: rows of `keys_schema`, all that there are with keys in some range.
    """
    import numpy as np
    import pyarrow as pa

    key, position = keys["key"].to_numpy(), keys["position"].to_numpy()
    order = np.lexsort((position, key))
    again = order[1:][key[order[1:]] == key[order[:-1]]]
    found = keys.take(pa.array(again)).select(duplicates_schema().names)
    return found.combine_chunks()


def versions() -> dict[str, Any]:
    """The version of datasketch, on which rows depend."""
    from importlib.metadata import version

    return {"datasketch": version("datasketch")}


def _bands(texts: list[str]) -> list[int]:
    """The keys of the bands of texts: the first band of all texts, then the second of all …"""
    try:
        from datasketch import MinHash
    except ImportError:
        raise ImportError("near_duplicates needs datasketch: pip install 'negcap[web]'") from None

    hashed = MinHash.generator(map(_shingles, texts), num_perm=BANDS * BAND_ROWS, seed=1)
    rows = [minhash.hashvalues.astype("<u8") for minhash in hashed]
    return [
        _hash(bytes([band + 1]), row[band * BAND_ROWS : (band + 1) * BAND_ROWS].tobytes())
        for band in range(BANDS)
        for row in rows
    ]


def _shingles(text: str) -> list[bytes]:
    return list({text[at : at + SHINGLE].encode() for at in range(max(1, len(text) - SHINGLE + 1))})


def _hash(salt: bytes, value: bytes) -> int:
    return int.from_bytes(blake2b(value, digest_size=8, salt=salt).digest(), "little")


def reasons(found: pa.Table) -> dict[int, str]:
    """The reason for each duplicate, by its position; that of an exact duplicate comes before that of a near one."""
    given = zip(found["position"].to_pylist(), found["reason"].to_pylist(), strict=True)
    return {position: REASONS[reason] for position, reason in sorted(given, reverse=True)}
