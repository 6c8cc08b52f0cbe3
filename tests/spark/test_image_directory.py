"""The directories of live engines: for one worker at a time, safe to clear, and nobody else's."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from thalweg.spark import image_directory as images
from thalweg.spark.image_directory import image_directory

LONG_AGO = time.time() - 2 * images._ABANDONED_SECONDS


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    return tmp_path / "thalweg"


def abandon(root: Path, checkpoint: str) -> Path:
    """An engine that nobody has used for long."""
    with image_directory(checkpoint, 0) as directory:
        assert directory is not None
        (directory / "engine").write_text("old")
    os.utime(root / checkpoint / "0.lock", (LONG_AGO, LONG_AGO))
    return directory


def test_a_bucket_has_one_place_which_one_at_a_time_may_use(root: Path) -> None:
    with image_directory("c", 3) as first, image_directory("c", 3) as second, image_directory("c", 4) as other:
        assert first == root / "c" / "3"
        assert other == root / "c" / "4"
        assert second is None
    with image_directory("c", 3) as again:
        assert again == first


def test_what_nobody_has_used_for_long_goes_when_another_query_comes(root: Path) -> None:
    abandon(root, "old")
    with image_directory("recent", 0), image_directory("new", 0):
        assert sorted(path.name for path in root.iterdir()) == ["new", "recent"]


def test_what_is_in_use_is_not_cleared_however_old_it_looks(root: Path) -> None:
    """A batch may take longer than engines are left lying."""
    with image_directory("slow", 0) as directory:
        os.utime(root / "slow" / "0.lock", (LONG_AGO, LONG_AGO))
        with image_directory("new", 0):
            assert directory is not None
            assert directory.exists()
            with image_directory("slow", 0) as second:
                assert second is None


@pytest.mark.parametrize("removes", ["the bucket", "the query"])
def test_a_lock_that_is_cleared_away_before_it_is_taken_is_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, removes: str
) -> None:
    """Another worker clears what is old at the very moment at which its bucket is asked for again."""
    abandon(root, "c")
    if removes == "the bucket":
        with image_directory("c", 1):
            pass  # so the directory of the query stays
    before(monkeypatch, lambda: images._clear_abandoned(root))
    with image_directory("c", 0) as directory:
        assert directory is not None
        assert list(directory.iterdir()) == []
        with image_directory("c", 0) as second:
            assert second is None


def test_a_lock_that_is_taken_before_it_is_cleared_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker asks for a bucket at the very moment at which another has seen that it is old."""
    directory = abandon(root, "c")

    def use() -> None:
        with image_directory("c", 0) as used:
            assert used == directory

    before(monkeypatch, use)
    images._clear_abandoned(root)
    assert (directory / "engine").exists()


def before(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Let something happen just before the next lock is asked for."""
    real, done = fcntl.flock, []

    def flock(*arguments: Any) -> None:
        if not done:
            done.append(True)
            action()
        real(*arguments)

    monkeypatch.setattr(fcntl, "flock", flock)


def test_an_error_of_the_batch_is_not_one_of_its_place(root: Path) -> None:
    with pytest.raises(OSError, match="the batch"), image_directory("c", 0):
        raise OSError("the batch")
    with image_directory("c", 0) as directory:
        assert directory == root / "c" / "0"


def occupy(root: Path) -> None:
    root.write_text("a file")


def link(root: Path) -> None:
    target = root.with_name("target")
    target.mkdir(mode=0o700)
    root.symlink_to(target)


def open_to_all(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)


@pytest.mark.parametrize("spoil", [occupy, link, open_to_all])
def test_a_directory_that_others_may_have_made_is_not_used(
    root: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_told", set())
    spoil(root)
    for _ in range(2):
        with image_directory("c", 0) as directory:
            assert directory is None
    assert len(caplog.messages) == 1
    assert "live engines are not kept on this host: " in caplog.text


def test_a_directory_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a directory of Spark's, engines lie among temporary files, under a name that anyone can guess."""
    monkeypatch.setattr(images, "_told", set())
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with image_directory("c", 0) as directory:
        assert directory == tmp_path / f"thalweg-{os.getuid()}" / "c" / "0"
        assert directory.parents[1].stat().st_mode & 0o777 == 0o700
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with image_directory("c", 0) as directory:
        assert directory is None
    assert f"belongs to the user with the number {me}" in caplog.text


@pytest.mark.parametrize("failing", ["mkdir", "open"])
def test_no_place_for_a_directory_is_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(images, "_told", set())
    root.mkdir(mode=0o700)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full)
        with image_directory("c", 0) as directory:
            assert directory is None
    assert "No space left on device" in caplog.text
    with image_directory("c", 0) as directory:
        assert directory == root / "c" / "0"
    shutil.rmtree(root)
