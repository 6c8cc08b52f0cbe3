"""Flat arrays that grow."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)

Int64s = NDArray[np.int64]
Int8s = NDArray[np.int8]
Bools = NDArray[np.bool_]


def grown(array: NDArray[_Scalar], length: int, fill: Any = 0) -> NDArray[_Scalar]:
    """The array itself if it is long enough, otherwise a copy of at least twice its length.

    Doubling makes the price of an element constant however it comes; ``fill`` is what the new elements hold.

    >>> grown(np.array([1, 2, 3]), 4, fill=-1).tolist()
    [1, 2, 3, -1, -1, -1]
    """
    held = len(array)
    if length <= held:
        return array
    longer = np.full((max(length, 2 * held), *array.shape[1:]), fill, array.dtype)
    longer[:held] = array
    return longer
