"""A process for each contender: a Python and a Spark of its own, which end before the next one's begin.

The files are written, and what was found is checked, in the process that asks. The other one only runs queries, so
that its memory is that of the contender.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thalweg.experiments import child, machine
from thalweg.experiments.experiment import Value
from thalweg.experiments.micro_batches import Files, Timings, Trigger, run
from thalweg.experiments.process_memory import Peaks, watched
from thalweg.experiments.spark.contenders import EVERYONE, Task
from thalweg.spark.session import local_session

_MOST_HEAP_MIB = 6 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """A query to run until its input ends.

    Attributes:
        files, triggers: the input: the files of the first so many triggers.
        directory: for the checkpoint. A job goes on from the one that it finds there.
        answer: where the answer is kept; None: nowhere.
        buckets: Thalweg's, if not as many as it has by default.
        warm_up: triggers that are not compared.

    """

    files: Files
    triggers: int
    directory: Path
    answer: Path | None = None
    buckets: int | None = None
    warm_up: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files.to_json(),
            "triggers": self.triggers,
            "directory": str(self.directory),
            "answer": None if self.answer is None else str(self.answer),
            "buckets": self.buckets,
            "warm_up": self.warm_up,
        }

    @staticmethod
    def from_json(known: Mapping[str, Any]) -> Job:
        """The job that :meth:`to_json` described."""
        places = {
            "files": Files.from_json(known["files"]),
            "directory": Path(known["directory"]),
            "answer": None if known["answer"] is None else Path(known["answer"]),
        }
        return Job(**{**known, **places})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of jobs: a run of each, the memory that the process took, and what it ran on."""

    runs: tuple[Timings, ...]
    peaks: Peaks
    machine: dict[str, Value] = field(default_factory=dict)

    @property
    def run(self) -> Timings:
        """Of the only job."""
        (only,) = self.runs
        return only


Ask = Callable[[str, Sequence[Job]], Outcome]
"""Has a contender do jobs, one after the other."""


def in_own_process(name: str, jobs: Sequence[Job], settings: Mapping[str, str]) -> Outcome:
    """Let a contender do jobs, one after the other, in a process of its own.

    ``settings`` are Spark's, and overrule the contender's.
    """
    asked = {"contender": name, "jobs": [job.to_json() for job in jobs], "settings": dict(settings)}
    answer = child.ask("spark", asked)
    runs = zip(answer["runs"], jobs, strict=True)
    return Outcome(
        tuple(Timings(tuple(Trigger(**trigger) for trigger in triggers), job.warm_up) for triggers, job in runs),
        Peaks(**answer["peaks"]),
        answer["machine"],
    )


def perform(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Do what :func:`in_own_process` asked for; this is the other side of it."""
    contender = EVERYONE[arguments["contender"]]
    heap = {"spark.driver.memory": f"{heap_mib()}m"}
    with watched() as peaks:
        spark = local_session(machine.cores(), **{**heap, **contender.settings, **arguments["settings"]})
        runs = []
        for known in arguments["jobs"]:
            job = Job.from_json(known)
            _forget(spark)
            task = Task(job.files, job.triggers, job.directory / "commands", job.buckets)
            answer, metrics = contender.query(spark, task)
            sink = "noop" if job.answer is None else "parquet"
            runs.append(run(answer, metrics, job.directory / "checkpoint", sink, job.answer))
        described = _describe(spark)
    return {
        "runs": [[asdict(trigger) for trigger in found.triggers] for found in runs],
        "peaks": asdict(peaks),
        "machine": described,
    }


def heap_mib() -> int:
    """The heap of everyone's Java: 6 GiB, or a quarter of a machine that has less than 24."""
    return min(_MOST_HEAP_MIB, machine.memory() // 4 // (1 << 20))


def _forget(spark: SparkSession) -> None:
    """A job does not pay for the one before: states of queries that have ended would stay loaded."""
    jvm: Any = spark.sparkContext._jvm
    stores = getattr(jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$")
    getattr(stores, "MODULE$").stop()
    jvm.java.lang.System.gc()


def _describe(spark: SparkSession) -> dict[str, Value]:
    jvm: Any = spark.sparkContext._jvm
    return {"java": str(jvm.java.lang.System.getProperty("java.version"))}
