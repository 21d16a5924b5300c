"""One random stream per record, so that results do not depend on workers, shards or order."""

from hashlib import blake2b
from random import Random


def record_rng(seed: int, operator: str, caption_id: str) -> Random:
    """A random generator seeded with the BLAKE2b hash of the seed, the operator and the caption's id."""
    digest = blake2b(f"{seed}\x1f{operator}\x1f{caption_id}".encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest, "little"))
