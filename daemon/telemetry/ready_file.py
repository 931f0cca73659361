"""The file that lists the daemon's addresses, written once it serves.

**Invariant:** readers see only a complete file written by this run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from authorizerd.daemon.errors import StartError

FILE_MODE: Final = 0o644
"""Everyone may read the addresses, unless the umask is stricter."""


class ReadyFile(msgspec.Struct, frozen=True):
    """The content of ``--ready-file``. Addresses are ``host:port``, or ``unix:PATH``."""

    listeners: Mapping[str, str]
    decision_http: str
    decision_stream: str | None
    admin_http: str
    metrics_http: str | None
    offset: int


def write_ready_file(path: Path, ready: ReadyFile) -> None:
    """Write the file under a temporary name and rename it, so that readers never see part of it.

    The temporary name is random, and an existing file is never opened, so that a user with write
    access to the folder cannot redirect the write.
    """
    aside = path.with_name(f"{path.name}.{token_hex(16)}.part")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(ready) + b"\n")
            aside.replace(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StartError(f"--ready-file: {path}: {error.strerror or error}") from error


def remove_stale_ready_file(ready_file: Path) -> None:
    """Remove the file of an earlier run, so that it cannot be mistaken for this run's."""
    try:
        ready_file.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"--ready-file: {ready_file}: {error.strerror or error}") from error
