"""One Spark for all tests of a process: starting it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark import jobs
from tests.spark.runs import BRIEF
from thalweg.spark.session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session(cores=2, **BRIEF)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    """No job outlives its test."""
    yield
    jobs.end_all()
