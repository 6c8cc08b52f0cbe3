"""The command line: ``thalweg run``, ``control``, ``check``, ``replay``, ``explain``, ``demo`` and ``bench``.

Whatever costs time to import (Arrow, DuckDB, Spark, the compiler) is imported inside the command
that needs it, so that ``thalweg --help`` answers at once.
"""

from thalweg.cli.app import main

__all__ = ["main"]
