"""The numbers by which Spark knows buckets.

Spark places a key by its hash, so a few small numbers may all land in one partition. Numbers are chosen
here such that the partitions get equally many.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def spark_hash(value: int) -> int:
    """Spark's ``hash`` of an INT: Murmur3 with seed 42, as a signed 32-bit number."""
    word = (value * 0xCC9E2D51) & _MASK
    word = ((word << 15 | word >> 17) * 0x1B873593) & _MASK
    state = 42 ^ word
    state = ((state << 13 | state >> 19) * 5 + 0xE6546B64) & _MASK
    state ^= 4  # bytes
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _MASK
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >= 1 << 31 else state


def bucket_keys(buckets: int, partitions: int) -> tuple[int, ...]:
    """A number for each bucket; bucket ``b`` is placed in partition ``b % partitions``.

    >>> [spark_hash(key) % 2 for key in bucket_keys(4, 2)]
    [0, 1, 0, 1]
    """
    keys: list[int] = []
    candidate = 0
    for bucket in range(buckets):
        while spark_hash(candidate) % partitions != bucket % partitions or candidate in keys:
            candidate += 1
        keys.append(candidate)
        candidate = 0
    return tuple(keys)
