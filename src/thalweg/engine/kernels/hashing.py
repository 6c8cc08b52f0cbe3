"""Keys made of codes, and open-addressed directories of keys: shared by the join and its feedback."""

from __future__ import annotations

from thalweg.engine.kernels.compiled import Int64s, inlined

DIRECTORY_FIELDS = 2
"""A slot of a directory: the key, and a word that is 0 as long as the slot is free."""


@inlined
def rotate(key: int) -> int:
    """Make room for a further code in the hash of several attribute classes."""
    return (key << 23) | ((key >> 41) & 0x7FFFFF)


@inlined
def hash_codes(code: Int64s, frame: int, lists: Int64s, start: int, count: int) -> int:
    """One hash of the codes of several attribute classes; of a single one, its code; of none, 0."""
    if count == 0:
        return 0
    key = code[frame, lists[start]]
    for i in range(start + 1, start + count):
        key = rotate(key) ^ code[frame, lists[i]]
    return key


@inlined
def hash_fields(mem: Int64s, word: int, lists: Int64s, start: int, count: int) -> int:
    """The same of the codes that a tuple has in the ``count`` fields that ``lists`` names from ``start`` on."""
    key = mem[word + lists[start]]
    for i in range(start + 1, start + count):
        key = rotate(key) ^ mem[word + lists[i]]
    return key


@inlined
def find(mem: Int64s, directory: int, mask: int, key: int) -> int:
    """The word of the key's slot in a directory, or of the free slot where it would go."""
    slot = (key ^ (key >> 32)) & mask
    while True:
        word = directory + slot * DIRECTORY_FIELDS
        if mem[word + 1] == 0 or mem[word] == key:
            return word
        slot = (slot + 1) & mask
