"""Finite tables as streams, in process. The public function is :func:`thalweg.replay`."""

from __future__ import annotations

from thalweg.replayer.api import Progress, open_replay, open_tables, pick_query, replay, run
from thalweg.replayer.replaying import Replay, Transitions
from thalweg.replayer.summary import PlanUse, ReplayResult, StateSize, Summary

__all__ = [
    "PlanUse",
    "Progress",
    "Replay",
    "ReplayResult",
    "StateSize",
    "Summary",
    "Transitions",
    "open_replay",
    "open_tables",
    "pick_query",
    "replay",
    "run",
]
