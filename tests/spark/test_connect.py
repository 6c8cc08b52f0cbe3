"""A session of Spark Connect is refused, with what to do instead."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg
from thalweg.errors import OptionError


class SparkSession:
    """What a client of Spark Connect has: no way to the JVM. (The true one needs a library that we do not.)"""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"[JVM_ATTRIBUTE_NOT_SUPPORTED] Attribute `{name}` is not supported in Spark Connect")


SparkSession.__module__ = "pyspark.sql.connect.session"


def test_a_client_of_spark_connect_is_told_to_run_in_the_driver() -> None:
    with pytest.raises(OptionError) as refused:
        thalweg.App(SparkSession())  # type: ignore[arg-type] # that is the test
    for words in ("a session of Spark Connect (pyspark.sql.connect.session.SparkSession)", "spark-submit", "classic"):
        assert words in str(refused.value)


def test_what_is_no_session_is_named() -> None:
    with pytest.raises(OptionError, match=r"App\('local\[2\]'\): what an app takes first is a SparkSession"):
        thalweg.App("local[2]")  # type: ignore[arg-type] # that is the test
