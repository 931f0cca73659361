"""The temporary directory of one submission: the files for Spark, and its log.

**Invariant:** only the owner can read it, since a plan contains ACLs, principals and passwords. It
contains the lock of its command, until it is removed or kept on purpose.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from authorizerd.replay.command_lock import LOCK_NAME, hold_lock, is_held
from authorizerd.replay.plans import Plan, encode_plan
from authorizerd.replay.submit.archive import ENTRY, ENTRY_NAME, Archive

PLAN_NAME: Final = "plan.json"

_PREFIX: Final = "authorizerd-replay-"
_PRIVATE: Final = 0o600
# Spark logs to standard error, so that ``Sorter`` can separate its log from the driver's output.
_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, kw_only=True)
class WorkDirectory:
    """The paths of one submission's files."""

    path: Path
    archive: Path

    @property
    def plan(self) -> Path:
        return self.path / PLAN_NAME

    @property
    def entry(self) -> Path:
        return self.path / ENTRY_NAME

    @property
    def logging(self) -> Path:
        return self.path / "log4j2.properties"

    @property
    def log(self) -> Path:
        return self.path / "spark.log"

    @property
    def stop(self) -> Path:
        return self.path / "stop"

    def keep(self) -> None:
        """Keep the directory after this command has ended."""
        (self.path / LOCK_NAME).unlink()

    def remove(self) -> None:
        """Delete the directory."""
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_but_log(self) -> None:
        """Delete all files except the log."""
        for path in self.path.iterdir():
            if path != self.log:
                path.unlink()


def make_work_directory(plan: Plan, archive: Archive) -> WorkDirectory:
    """Create the directory, with all files except the log, and remove those of killed commands.

    Raises:
        OSError: the directory or a file cannot be written.
    """
    _remove_abandoned()
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    hold_lock(path / LOCK_NAME)
    made = WorkDirectory(path=path, archive=path / archive.name)
    _write(made.archive, archive.data)
    _write(made.plan, encode_plan(plan))
    _write(made.entry, ENTRY)
    _write(made.logging, _LOGGING.encode())
    return made


def _remove_abandoned() -> None:
    """Delete the directories of this user's commands that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # It may be another user's, or removed meanwhile. One without the lock's file was kept.
        with suppress(OSError):
            if path.lstat().st_uid == os.geteuid() and not is_held(path / LOCK_NAME):
                shutil.rmtree(path)


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
        file.write(data)
