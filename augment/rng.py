"""Random streams by record, so that they depend on no worker, shard or order."""

from hashlib import blake2b
from random import Random


def record_rng(seed: int, operator: str, caption_id: str) -> Random:
    """The random stream of one operator on one caption: blake2b of the three."""
    digest = blake2b(f"{seed}\x1f{operator}\x1f{caption_id}".encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest, "little"))
