"""The command line: ``thalweg replay``, ``explain``, ``bench`` and ``demo``.

Whatever costs time to import (Arrow, DuckDB, the compiler) is imported inside the command
that needs it, so that ``thalweg --help`` answers at once.
"""

from thalweg.cli.app import main

__all__ = ["main"]
