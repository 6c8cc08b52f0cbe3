"""The file by which the app tells the stream of commands what triggers have taken: both are on the driver's host."""

from __future__ import annotations

from pathlib import Path

from thalweg.spark.prices import Prices

_MUCH = 0.1
"""From such a share on prices count as others: they are never the same twice, and every change is written down."""


class PriceFile:
    """A file with prices; an empty ``path``: there is none."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: int | None = None
        self._found: Prices | None = None

    def write(self, prices: Prices) -> None:
        """Leave word of prices, in the place of those before."""
        new = Path(f"{self._path}.new")
        new.write_text(prices.text())
        new.replace(self._path)

    def remove(self) -> None:
        """Nobody will ask again."""
        Path(self._path).unlink(missing_ok=True)

    def after(self, text: str) -> str:
        """The prices that hold after those of a text: the same text, unless they differ much."""
        self._look()
        if self._found is None:
            return text
        known = Prices.of_text(text)
        return text if known is not None and not self._found.differs(known, _MUCH) else self._found.text()

    def _look(self) -> None:
        if not self._path:
            return
        try:
            stamp = Path(self._path).stat().st_mtime_ns
            if stamp != self._stamp:
                self._found, self._stamp = Prices.of_text(Path(self._path).read_text()), stamp
        except FileNotFoundError:  # no trigger has been measured yet, or the query has ended
            return
