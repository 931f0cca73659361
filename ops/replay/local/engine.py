"""What the engines without Spark share."""

from __future__ import annotations

from pathlib import Path

from authorizerd.replay.errors import TrafficError
from authorizerd.replay.text import write_file


class LocalEngine:
    """The directory of a command's results."""

    def __init__(self, out: str) -> None:
        self._out = Path(out)

    def write_text(self, name: str, text: str, /) -> None:
        """Write a file atomically, and create its directories.

        Raises:
            TrafficError: it cannot be written.
        """
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            write_file(self._out / name, text)
        except OSError as error:
            raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error
