"""The files of a submission: the zip archive with its code, the script, the plan, and the log.

**Invariant:** equal sources give equal bytes on every machine, so the hash in the archive's name
identifies the code behind a result. Only the owner can read the temporary directory of a command,
since a plan contains ACLs, principals and passwords. The directory contains the lock of its
command, until it is removed or kept on purpose.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import authorizerd
from authorizerd.replay.command_lock import LOCK_NAME, hold_lock, is_held
from authorizerd.replay.plans import Plan, encode_plan

PACKAGES: Final = ("acl", "cli", "config", "image", "management", "metadata", "protocol", "replay")
NOT_SHIPPED: Final = (
    "management/policy/",
    "replay/__main__.py",
    "replay/cli.py",
    "replay/engines.py",
    "replay/load/command.py",
    "replay/load/lanes/processes.py",
    "replay/local/causes.py",
    "replay/local/evidence.py",
    "replay/local/files.py",
    "replay/local/table.py",
    "replay/local/traffic.py",
    "replay/report/",
    "replay/submit/",
    "replay/verify/command.py",
    "replay/verify/follow/",
)
"""Modules that only the command uses; the application never imports them."""
OF_CLI: Final = ("cli/__init__.py", "cli/program/")
"""The modules of ``cli`` that every program needs; no other ones are shipped."""
PLAN_NAME: Final = "plan.json"
PACKAGE_NAME: Final = "authorizerd-replay.zip"
ENTRY_NAME: Final = "authorizerd-replay.py"
ENTRY: Final = b"""\
import sys

from authorizerd.replay.application import main

sys.exit(main(sys.argv[1:]))
"""
"""The script for spark-submit. All of its code is in the archive."""

_ROOT: Final = Path(authorizerd.__file__).parent
# The earliest time that a zip archive can contain.
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
_HASH_CHARACTERS: Final = 16
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


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The bytes of the archive, and their hash."""

    data: bytes
    sha256: str

    @property
    def name(self) -> str:
        return f"authorizerd-replay-{self.sha256[:_HASH_CHARACTERS]}.zip"


def make_archive(root: Path = _ROOT) -> Archive:
    """Return the zip of the shipped modules below ``root``, sorted and uncompressed."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, path in sorted(_modules(root)):
            # Uncompressed, because the output of zlib may differ between machines.
            archive.writestr(zipfile.ZipInfo(name, _FIXED_TIME), path.read_bytes())
    data = written.getvalue()
    return Archive(data=data, sha256=hashlib.sha256(data).hexdigest())


def write_package(folder: Path) -> Archive:
    """Write the application's two files into ``folder``, and return the archive.

    Raises:
        OSError: the folder or a file cannot be written.
    """
    archive = make_archive()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PACKAGE_NAME).write_bytes(archive.data)
    (folder / ENTRY_NAME).write_bytes(ENTRY)
    return archive


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    yield f"{root.name}/__init__.py", root / "__init__.py"
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            name = path.relative_to(root).as_posix()
            is_of_cli = name.startswith("cli/") and not name.startswith(OF_CLI)
            if not name.startswith(NOT_SHIPPED) and not is_of_cli:
                yield f"{root.name}/{name}", path


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

    def remove(self, *, but_log: bool = False) -> None:
        """Delete the directory, or all of its files except the log."""
        if not but_log:
            shutil.rmtree(self.path, ignore_errors=True)
            return
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
