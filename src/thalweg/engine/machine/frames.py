"""The place of the join kernel's machine, which it keeps between calls."""

from __future__ import annotations

import numpy as np

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s


def new_frames(streams: int, classes: int, states: int, registers: Int64s | None = None) -> k.Frames:
    """Room for the new tuple's frame, one per state above it, and one to look for what a demand asks."""
    frames = states + 2
    return k.Frames(
        registers=np.zeros(k.REGISTERS, np.int64) if registers is None else registers,
        program=np.zeros(frames, np.int64),
        depth=np.full(frames, -1),
        waiting=np.full(frames, -1),
        state=np.zeros(frames, np.int64),
        key=np.zeros(frames, np.int64),
        birth=np.full(frames, -1),
        step=np.zeros((frames, streams), np.int64),
        cursor=np.zeros((frames, streams), np.int64),
        slice=np.zeros((frames, streams), np.int64),
        reach=np.zeros((frames, streams), np.int64),
        probe=np.zeros((frames, streams), np.int64),
        latest=np.zeros((frames, streams + 1), np.int64),
        expiry=np.zeros((frames, streams + 1), np.int64),
        mask=np.full((frames, streams + 1), k.ALL),
        bound=np.zeros((frames, streams), np.int64),
        code=np.zeros((frames, max(1, classes)), np.int64),
    )
