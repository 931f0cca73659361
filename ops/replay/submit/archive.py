"""The two files of the Spark application: the zip archive with its code, and the script.

**Invariant:** equal sources give equal bytes on every machine, so the hash in the archive's name
identifies the code behind a result.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import authorizerd

PACKAGES: Final = ("acl", "cli", "config", "image", "management", "metadata", "protocol", "replay")
NOT_SHIPPED: Final = (
    "management/policy/",
    "replay/__main__.py",
    "replay/cli.py",
    "replay/engines.py",
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
