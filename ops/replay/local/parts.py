"""Divide logs into tasks of about equal size: ranges of plain files, and whole archives.

**Invariant:** the parts of a file contain each of its lines once. Later parts go to later tasks.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from authorizerd.replay.ingest.parse.logs import find_suffix, read_log, read_part
from authorizerd.replay.local.files import PACKED_FACTOR

TASK_BYTES_MIN: Final = 32 * 1024 * 1024
TASK_BYTES_MAX: Final = 512 * 1024 * 1024
TASKS_A_CORE: Final = 4
"""Tasks of equal size, so that all cores are busy until the end."""

_QUOTED: Final = re.compile(
    r"[^/A-Za-z0-9_.!~*'():@&=+$,;\u0080-\U0010ffff-]"
    # Control characters, and spaces.
    r"|[\u0080-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
"""Matches what ``java.net.URI`` encodes."""
_ROTATED: Final = "replaced or cut while the logs were read, so lines are missing: run it again"


class Part(NamedTuple):
    """A range of bytes of a plain file, or all bytes of an archive.

    ``inode`` is that of the file when the tasks were planned.
    """

    path: Path
    begin: int
    end: int
    inode: int

    @property
    def is_packed(self) -> bool:
        return find_suffix(self.path.name) is not None

    @property
    def uri(self) -> str:
        """The file, in the form that Spark gives it: a table always names a file in one way."""
        quoted = _QUOTED.sub(lambda found: quote(found[0]), str(self.path.absolute()))
        return f"file://{quoted}"

    def read_blocks(self) -> Iterator[memoryview]:
        """Yield the lines in blocks; see ``read_log``.

        Raises:
            OSError: the file cannot be read, or was rotated meanwhile; the error names it.
        """
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self.inode or status.st_size < self.end:
                    raise OSError(errno.ESTALE, _ROTATED)
                if self.is_packed:
                    yield from read_log(self.path.name, file)
                else:
                    yield from read_part(file, self.begin, self.end)
        except OSError as error:
            error.filename = str(self.path)  # a read names no file
            raise


def plan_tasks(paths: Iterable[Path], cores: int) -> list[list[Part]]:
    """Return the parts that each task reads.

    Fewer tasks are better, because each one produces its own sums for a tuple.

    Raises:
        OSError: a file does not exist.
    """
    found = [(path, path.stat()) for path in paths]
    files = [Part(path, 0, status.st_size, status.st_ino) for path, status in found]
    total = sum(map(_weigh, files))
    task_bytes = min(max(total // (TASKS_A_CORE * cores), TASK_BYTES_MIN), TASK_BYTES_MAX)
    tasks: list[list[Part]] = []
    filled = 0
    for file in files:
        for part in [file] if file.is_packed else _divide(file, task_bytes):
            if not tasks or filled + _weigh(part) > task_bytes:
                tasks.append([])
                filled = 0
            tasks[-1].append(part)
            filled += _weigh(part)
    return tasks


def _divide(file: Part, task_bytes: int) -> Iterator[Part]:
    for begin in range(0, file.end, task_bytes):
        yield file._replace(begin=begin, end=min(begin + task_bytes, file.end))


def _weigh(part: Part) -> int:
    return (part.end - part.begin) * (PACKED_FACTOR if part.is_packed else 1)
