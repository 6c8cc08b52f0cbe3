"""The kernels as the plain Python that they are written in, without compiling."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import random, numba
from tests.engine.test_accounts import check_any_budget
from tests.engine.test_join import MIGRATIONS, naive, random_production, random_setting, run
from tests.engine.uncompiled import watch
from thalweg.engine.kernels import (
    accounts, arrival, demands, eddy, feedback, filters, gaps, machine, probing, results, scanning, states, storing,
    straight, windows,
)

assert not hasattr(machine.run, "py_func"), "compiled"
watch(arrival, demands, eddy, feedback, filters, gaps, machine, probing, results, scanning, states, storing, straight)
watch(accounts, windows)
for seed in range(60):
    rng = random.Random(seed)
    setting = random_setting(rng)
    migration = rng.choice(MIGRATIONS)
    limit = rng.choice([None, 1, 20_000]) if migration == "jisc" else None
    answer, _ = run(setting, rng, migration, limit, random_production(rng))
    assert answer == naive(setting), seed
print("60 plans ran uncompiled")
for seed in range(40):
    check_any_budget(seed)
print("40 budgets held uncompiled")
"""


def test_the_join_kernels_are_plain_python_too() -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "60 plans ran uncompiled" in finished.stdout
    assert "40 budgets held uncompiled" in finished.stdout
