"""The temporary directory of one submission: the files for Spark, and its log.

**Invariant:** only the owner can read it, since a plan contains ACLs, principals and passwords. It
contains the lock of its command, until the directory is removed or kept on purpose.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from authorizerd.replay.command_lock import LOCK_NAME, hold_lock, is_held
from authorizerd.replay.plans import Plan, encode_plan
from authorizerd.replay.submit.archive import ENTRY, ENTRY_NAME, Archive

PLAN_NAME: Final = "plan.json"

_PREFIX: Final = "authorizerd-replay-"
_PRIVATE: Final = 0o600
# Spark logs to standard error, so that ``Sorter`` can separate its log from the driver's output.
_LOGGING: Final = b"""\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


class WorkDirectory:
    """The paths of one submission's files."""

    def __init__(self, path: Path, archive_name: str) -> None:
        self.path = path
        self.archive = path / archive_name
        self.plan = path / PLAN_NAME
        self.entry = path / ENTRY_NAME
        self.logging = path / "log4j2.properties"
        self.log = path / "spark.log"
        self.stop = path / "stop"

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
    made = WorkDirectory(Path(tempfile.mkdtemp(prefix=_PREFIX)), archive.name)
    hold_lock(made.path / LOCK_NAME)
    contents = {
        made.archive: archive.data,
        made.plan: encode_plan(plan),
        made.entry: ENTRY,
        made.logging: _LOGGING,
    }
    for path, data in contents.items():
        path.touch(_PRIVATE)
        path.write_bytes(data)
    return made


def _remove_abandoned() -> None:
    """Delete the directories of this user's killed commands."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # It may belong to another user, or have been removed in the meantime. A directory without a
        # lock file was kept on purpose.
        with suppress(OSError):
            if path.lstat().st_uid == os.geteuid() and not is_held(path / LOCK_NAME):
                shutil.rmtree(path)
