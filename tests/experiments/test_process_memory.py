"""What is said about the memory of processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from thalweg.experiments.process_memory import Peaks, look

KIB = 1024
JAVA, DAEMON = b"/opt/java/bin/java\0-Xmx6g\0", b"python\0-m\0pyspark.daemon\0pyspark.worker\0"


def process(proc: Path, number: int, parent: int, command: bytes, *, name: str, kib: int) -> None:
    """A process with ``kib`` KiB resident, half as many as its share, and twice as many at its peak."""
    place = proc / str(number)
    place.mkdir()
    (place / "stat").write_text(f"{number} ({name}) S {parent} 1 1 0 -1")
    (place / "cmdline").write_bytes(command)
    (place / "status").write_text(f"Name:\t{name}\nVmHWM:\t{2 * kib} kB\nVmRSS:\t{kib} kB\n")
    (place / "smaps_rollup").write_text(f"00-ff ---p 0 00:00 0 [rollup]\nRss: {kib} kB\nPss: {kib // 2} kB\n")


def test_java_counts_whole_and_python_with_its_share(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, b"init\0", name="init", kib=900)
    process(tmp_path, 10, 1, b"python\0bench\0", name="python) 1 (x", kib=20)
    process(tmp_path, 11, 10, JAVA, name="java", kib=1000)
    process(tmp_path, 12, 11, DAEMON, name="python", kib=40)
    process(tmp_path, 13, 12, DAEMON, name="python", kib=60)
    peaks = Peaks()
    look(tmp_path / "10", peaks)
    assert peaks == Peaks(tree=(10 + 1000 + 20 + 30) * KIB, jvm=2000 * KIB, worker=120 * KIB)


def test_what_java_is_about_to_start_does_not_count_as_another_java(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, b"python\0bench\0", name="python", kib=20)
    process(tmp_path, 11, 10, JAVA, name="java", kib=1000)
    process(tmp_path, 12, 11, JAVA, name="Executor task l", kib=1000)  # the name is that of the thread
    peaks = Peaks()
    look(tmp_path / "10", peaks)
    assert peaks.tree == (10 + 1000) * KIB


def test_the_most_that_was_seen_stays(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, b"python\0bench\0", name="python", kib=20)
    peaks = Peaks(tree=1 << 40, jvm=7, worker=8)
    look(tmp_path / "10", peaks)
    assert peaks == Peaks(tree=1 << 40, jvm=7, worker=8)


def test_a_process_below_is_watched_while_it_runs() -> None:
    """In a process that has no others below it, as this one may have."""
    program = """
import json, subprocess, sys
from thalweg.experiments.process_memory import watched
hold = "held = bytearray(range(256)) * (1 << 18); import time; time.sleep(3)"
with watched() as before:
    pass
with watched() as peaks:
    subprocess.run([sys.executable, "-c", hold], check=True)
print(json.dumps([before.tree, peaks.tree, peaks.jvm]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, peak, jvm = json.loads(done.stdout)
    assert peak - before > 60 << 20
    assert jvm is None
