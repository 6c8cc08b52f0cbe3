"""Thalweg: windowed joins of many streams, under a plan that can change at any moment while they run.

>>> import thalweg
>>> thalweg.replay("SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k",
...     {"a": {"ts": [0], "k": [7]}, "b": {"ts": [5], "k": [7]}}).to_pylist()
[{'k': 7}]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg.errors import InputWarning, ThalwegError
    from thalweg.explainer import explain
    from thalweg.options import Options
    from thalweg.replayer import replay
    from thalweg.settings import Adaptivity, Feedback
    from thalweg.spark.app import App

__version__ = "0.2.0"
__all__ = [
    "Adaptivity",
    "App",
    "Feedback",
    "InputWarning",
    "Options",
    "ThalwegError",
    "__version__",
    "explain",
    "replay",
]

# Each name is loaded when it is first used, so that `import thalweg` costs next to nothing.
_HOMES = {
    "Adaptivity": "thalweg.settings",
    "App": "thalweg.spark.app",
    "Feedback": "thalweg.settings",
    "InputWarning": "thalweg.errors",
    "Options": "thalweg.options",
    "ThalwegError": "thalweg.errors",
    "explain": "thalweg.explainer",
    "replay": "thalweg.replayer",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'thalweg' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
