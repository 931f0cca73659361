"""The zip that a job carries to the cluster: what decides, and the job itself.

**Invariant:** equal sources make equal bytes, on any day and any machine, so that the hash in the
name says which code gave a result.
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

_ROOT: Final = Path(authorizerd.__file__).parent
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
_HASH_CHARACTERS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Archive:
    data: bytes
    sha256: str

    @property
    def name(self) -> str:
        return f"authorizerd-replay-{self.sha256[:_HASH_CHARACTERS]}.zip"


def make_archive(root: Path = _ROOT) -> Archive:
    """Return the zip of the packages below ``root``: their modules, sorted, not compressed."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, path in sorted(_modules(root)):
            archive.writestr(zipfile.ZipInfo(name, _FIXED_TIME), path.read_bytes())
    data = written.getvalue()
    return Archive(data=data, sha256=hashlib.sha256(data).hexdigest())


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    yield f"{root.name}/__init__.py", root / "__init__.py"
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            yield f"{root.name}/{path.relative_to(root).as_posix()}", path
