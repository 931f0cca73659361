"""The zip archive that a job carries to the cluster: the ACL core and the jobs.

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

PACKAGES: Final = ("acl", "image", "protocol", "replay")
NOT_SHIPPED: Final = (
    "acl/formats/",
    "acl/policy/",
    "replay/__main__.py",
    "replay/acls/",
    "replay/cli.py",
    "replay/engines.py",
    "replay/local/",
    "replay/report/",
    "replay/submit/",
)
"""Modules of the command; import contracts keep them out of the jobs."""

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


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    yield f"{root.name}/__init__.py", root / "__init__.py"
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            name = path.relative_to(root).as_posix()
            if not name.startswith(NOT_SHIPPED):
                yield f"{root.name}/{name}", path
