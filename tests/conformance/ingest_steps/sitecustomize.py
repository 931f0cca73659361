"""Count the operations by which Python changes a table's files, and stop at one of them.

A Python that finds this folder in PYTHONPATH imports this module at its start. The folder named by
``STEPS_FOLDER`` has the file ``order``: the number of the step, what happens there, and a part of
the table's paths. ``tests/kafka_rig/cluster_files`` does the same for Java.

At the step, the file ``reached`` appears, and the operation waits for the file ``go``. With the
word ``cut``, it fails instead, as do all later ones, as if the process had ended.
"""

import errno
import os
import sys
import time
from pathlib import Path

FOLDER = "STEPS_FOLDER"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PATHS = {"os.mkdir": 0, "os.remove": 0, "os.rmdir": 0, "os.link": 1, "os.rename": 1}
"""The argument of each operation that is the path of what changes."""
_FOLDERS = {"os.mkdir": 2, "os.remove": 1, "os.rmdir": 1}
"""The argument that is the descriptor of the folder to which the path is relative."""


class Steps:
    """The order that is followed, if there is one."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._stop = 0
        self._is_cut = False
        self._table = ""

    def arm(self, folder: Path | None) -> None:
        """Follow the order in ``folder`` from now on; None ends that."""
        self._folder = None
        if folder is not None:
            stop, action, self._table = (folder / "order").read_text().split(" ")
            self._stop, self._is_cut = int(stop), action == "cut"
            self._folder = folder

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        """Take each event of the interpreter, before it happens."""
        path = None if self._folder is None else _changed_path(event, arguments)
        if path is not None and self.counts(path):
            self.reach("python", event, path)

    def counts(self, path: str) -> bool:
        """Return True if a change of this path is a step."""
        return self._folder is not None and self._table in path

    def reach(self, who: str, name: str, path: str) -> None:
        """Count an operation before it is carried out.

        Raises:
            OSError: the order is to cut everything off from this step on.
        """
        folder = self._folder
        assert folder is not None
        with open(folder / "trace", "a+") as trace:
            trace.write(f"{who} {name} {path}\n")
            trace.seek(0)
            number = sum(1 for _ in trace)
        if number == self._stop:
            (folder / "reached").touch()
        if number >= self._stop and self._is_cut:
            raise OSError(errno.EIO, f"cut off at step {self._stop}")
        while number == self._stop and not (folder / "go").exists():
            time.sleep(0.002)


def _changed_path(event: str, arguments: tuple[object, ...]) -> str | None:
    if event == "open":
        path, _, flags = arguments
        is_writing = isinstance(flags, int) and flags & _WRITING
        return str(path) if is_writing and isinstance(path, (str, Path)) else None
    place = _PATHS.get(event)
    if place is None:
        return None
    relative = arguments[_FOLDERS[event]] if event in _FOLDERS else -1
    base = os.readlink(f"/proc/self/fd/{relative}") if relative != -1 else ""
    return os.path.join(base, str(arguments[place]))


STEPS = Steps()
if FOLDER in os.environ:
    STEPS.arm(Path(os.environ[FOLDER]))
sys.addaudithook(STEPS.hear)
