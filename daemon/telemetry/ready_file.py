"""The file that says where a daemon serves, written once it does.

**Invariant:** what stands there is whole, and is this run's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

import msgspec

from authorizerd.daemon.errors import StartError


class ReadyFile(msgspec.Struct, frozen=True):
    """What ``--ready-file`` gets once the ACLs are loaded: addresses as ``host:port``."""

    listeners: Mapping[str, str]
    decision_http: str
    decision_stream: str | None
    admin_http: str
    offset: int


def write_ready_file(path: Path, ready: ReadyFile) -> None:
    """Write the file aside and move it into place, so that a reader never sees half of it.

    Whoever may write to the folder cannot lead the daemon elsewhere: the name aside is a random
    one, and nothing that stands there already is opened.
    """
    aside = path.with_name(f"{path.name}.{token_hex(16)}.part")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
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
    """Remove what an earlier run has written, before anybody takes it for this one's."""
    try:
        ready_file.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"--ready-file: {ready_file}: {error.strerror or error}") from error
