"""The order of the suite: what waits longest for other processes begins first."""

from __future__ import annotations

import pytest

FIRST = ("tests/spark/test_crashes.py", "tests/spark/test_cluster.py", "tests/cli/test_demo.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
