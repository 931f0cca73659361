"""The daemon's command, on a disk that stops the load before the log's last segment.

There it prints ``held`` on standard output and waits for a line on standard input. A shutdown is
forced after a second; everything else is unchanged.

    python -m tests.end_to_end.held_daemon serve --config server.properties …
"""

import sys
from pathlib import Path
from typing import BinaryIO, Final
from unittest import mock

from authorizerd.cli.main import main
from authorizerd.daemon import components as assembly
from authorizerd.daemon import lifespan
from authorizerd.metadata.storage import Storage

HELD: Final = "held\n"


class HeldStorage(Storage):
    """A disk whose last segment opens only after a line on standard input."""

    def __init__(self) -> None:
        super().__init__()
        self._is_released = False

    def open(self, path: Path) -> BinaryIO:
        """Open ``path``; the last segment waits for a line first."""
        if not self._is_released and path.name == max(self._segments(path.parent), default=None):
            sys.stdout.write(HELD)
            sys.stdout.flush()
            sys.stdin.readline()
            self._is_released = True
        return super().open(path)

    def _segments(self, directory: Path) -> list[str]:
        return [name for name in self.names(directory) if name.endswith(".log")]


if __name__ == "__main__":
    with (
        mock.patch.object(assembly, "DISK", HeldStorage()),
        mock.patch.object(lifespan, "ENDING_SECONDS", 1),
    ):
        sys.exit(main())
