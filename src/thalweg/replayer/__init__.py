"""Finite tables as streams, in process. The public function is :func:`thalweg.replay`."""

from __future__ import annotations

from thalweg.replayer.api import Progress, open_replay, open_replays, open_tables, pick_query, replay, run, run_all
from thalweg.replayer.replaying import Replay
from thalweg.replayer.schedule import Budgets, Entries, Transitions
from thalweg.replayer.summary import BudgetUse, PlanUse, ReplayResult, Share, StateSize, StepUse, Summary

__all__ = [
    "BudgetUse",
    "Budgets",
    "Entries",
    "PlanUse",
    "Progress",
    "Replay",
    "ReplayResult",
    "Share",
    "StateSize",
    "StepUse",
    "Summary",
    "Transitions",
    "open_replay",
    "open_replays",
    "open_tables",
    "pick_query",
    "replay",
    "run",
    "run_all",
]
