"""A log directory in memory, which tests can damage and read thousands of times."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.model import Acl
from authorizerd.metadata.inspection.findings import Fault
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import Storage


class StoredFiles(Storage):
    """A read-only storage. The caller may change ``files`` at any time."""

    def __init__(self, files: dict[Path, bytes]) -> None:
        self.files = dict(files)

    @classmethod
    def of(cls, directory: Path) -> StoredFiles:
        """Return everything below ``directory`` on the disk."""
        return cls({path: path.read_bytes() for path in directory.rglob("*") if path.is_file()})

    def names(self, directory: Path) -> list[str]:
        return sorted({text.partition("/")[0] for text in self._below(directory)})

    def exists(self, path: Path) -> bool:
        return path in self.files or any(True for _ in self._below(path))

    def is_file(self, path: Path) -> bool:
        return path in self.files

    def size(self, path: Path) -> int:
        return len(self._find(path))

    def open(self, path: Path) -> BinaryIO:
        return io.BytesIO(self._find(path))

    def _below(self, directory: Path) -> Iterator[str]:
        """Yield the paths of the files below ``directory``. They are texts, which are fast."""
        above = f"{directory}/"
        return (text[len(above) :] for text in map(str, self.files) if text.startswith(above))

    def _find(self, path: Path) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory")
        return self.files[path]

    def drop_cache(self, path: Path) -> None:
        """Do nothing: there is no cache."""


def acls_read(path: Path, storage: Storage) -> dict[bytes, Acl]:
    """Return the ACLs that the daemon would serve, or raise MetadataLogError or ChangeError."""
    builder, replay = SnapshotBuilder(), Replay()
    for log_batch in MetadataLog.open(path, storage).batches():
        for step in replay.steps(log_batch):
            if step is not None:
                builder.apply_changes(step.changes)
    return dict(builder.freeze(0).acls.items())


def faults_of(log_dir: Path, storage: Storage) -> list[Fault]:
    return [each for each in Inspection(log_dir, storage).findings() if isinstance(each, Fault)]
