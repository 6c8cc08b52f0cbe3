"""The numbers by which Spark knows buckets.

Spark places a key by its hash, so a few small numbers may all land in one partition. Numbers are chosen
here such that partitions get equally many, whenever their number divides that of the buckets.
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


def default_buckets(cores: int) -> int:
    """A bucket for each core, rounded up to a power of two, so that machines of similar size agree on the number."""
    return 1 << max(0, cores - 1).bit_length()


def default_partitions(cores: int) -> int:
    """Partitions of the shuffle: as many as there are cores, rounded down to a power of two.

    So the buckets, a power of two as well, fill them evenly. More partitions than cores would take turns.

    >>> [(cores, default_buckets(cores), default_partitions(cores)) for cores in (1, 2, 3, 12, 16)]
    [(1, 1, 1), (2, 2, 2), (3, 4, 2), (12, 16, 8), (16, 16, 16)]
    """
    return 1 << max(0, cores.bit_length() - 1)


def bucket_keys(buckets: int) -> tuple[int, ...]:
    """A number for each bucket, whose hash is the bucket's own number modulo theirs.

    >>> [spark_hash(key) % 4 for key in bucket_keys(4)]
    [0, 1, 2, 3]
    """
    keys: dict[int, int] = {}
    candidate = 0
    while len(keys) < buckets:
        keys.setdefault(spark_hash(candidate) % buckets, candidate)
        candidate += 1
    return tuple(keys[bucket] for bucket in range(buckets))
