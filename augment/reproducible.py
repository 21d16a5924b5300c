"""What is the same on every machine: random numbers of records, and exp and log to the last bit.

NumPy's and the C library's exp and log differ in the last bit between instruction sets. Those here consist of
operations that IEEE 754 defines (additions, products, divisions, changes of the exponent), and differ from the others
by about 1e-16.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from math import factorial
from random import Random

import numpy as np

# Their sum is ln 2; n * LN2_HIGH is exact for |n| < 2^20.
LN2_HIGH = 0.6931471803691238
LN2_LOW = 1.9082149292705877e-10
# The coefficients of power series, the lowest power first: e^x, and 2 artanh(x) / x in x^2.
EXP = [1 / factorial(n) for n in range(14)]
LOG = [2 / (2 * n + 1) for n in range(11)]
STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64 (Steele et al. 2014), as are the shifts and factors of `mix_bits`
MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
TOGETHER = 1 << 15  # numbers whose exp is computed at once: its steps find them in a core's cache


def record_rng(seed: int, operator: str, caption_id: str) -> Random:
    """A generator seeded with the BLAKE2b hash of seed, operator and caption's id, whatever the order of captions."""
    digest = blake2b(f"{seed}\x1f{operator}\x1f{caption_id}".encode(), digest_size=8).digest()
    return Random(int.from_bytes(digest, "little"))


def hash_keys(names: Iterable[str]) -> np.ndarray:
    """A 64-bit number for each name, its BLAKE2b hash: (names,), unsigned."""
    digests = b"".join(blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def mix_bits(numbers: np.ndarray) -> np.ndarray:
    """Unsigned 64-bit numbers that look random, by splitmix64's mixing: different `numbers` give different ones."""
    bits = np.asarray(numbers, np.uint64)
    for shift, factor in MIX:
        bits = (bits ^ (bits >> shift)) * factor
    return bits ^ (bits >> np.uint64(31))


def stream_bits(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Elements of random streams (splitmix64), as 64 bits: of the stream of each key, the element of this number."""
    return mix_bits(keys + STEP * numbers.astype(np.uint64))


def uniform_from_bits(bits: np.ndarray) -> np.ndarray:
    """Numbers between 0 and 1, exclusive, from the upper 52 of 64 bits each."""
    return ((bits >> np.uint64(12)) + 0.5) * 2.0**-52


def shuffle_key(name: str, seed: int = 0) -> int:
    """A 64-bit hash of a name: things sorted by it are in random order, and further things do not change this order."""
    return int.from_bytes(blake2b(f"{seed}:{name}".encode(), digest_size=8).digest(), "big")


def exp(x: np.ndarray) -> np.ndarray:
    """e^x of each element: an array of the shape of `x`, in float64; 0 below -745, infinity above 710."""
    if np.size(x) > TOGETHER:
        return np.concatenate([exp(part) for part in np.array_split(x, x.size // TOGETHER + 1)])
    x = np.clip(x, -800.0, 800.0)
    # e^x = 2^doublings * e^rest. ln 2 is subtracted in two parts, of which the first is short: so `rest` stays exact.
    doublings = np.rint(x * (1 / (LN2_HIGH + LN2_LOW)))
    rest = x - doublings * LN2_HIGH
    rest -= doublings * LN2_LOW
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(_polynomial(EXP, rest), doublings.astype(np.int32))


def log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of each element, none negative: an array of the shape of `x`, in float64; -inf of 0."""
    x = np.asarray(x, np.float64)
    fraction, doublings = np.frexp(x)  # x = fraction * 2^doublings
    small = fraction < 0.5**0.5
    fraction = np.where(small, 2 * fraction, fraction)
    doublings = doublings - small
    ratio = (fraction - 1) / (fraction + 1)  # log(fraction) = 2 artanh(ratio)
    logarithm = ratio * _polynomial(LOG, ratio * ratio) + doublings * LN2_LOW + doublings * LN2_HIGH
    return np.where(x > 0, logarithm, -np.inf)


def sigmoid(log_odds: np.ndarray) -> np.ndarray:
    """The probabilities that belong to log odds."""
    return 1.0 / (1.0 + exp(-log_odds))


def _polynomial(coefficients: list[float], x: np.ndarray) -> np.ndarray:
    """The polynomial with these coefficients, the lowest power first, at each x (Horner's scheme)."""
    total = np.full(np.shape(x), coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total *= x
        total += coefficient
    return total
