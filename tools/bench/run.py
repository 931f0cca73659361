"""A run of several parts: its directory, its extent, and the logs of sets."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tools.bench.checkpoint import write_checkpoint
from tools.bench.sets import AclSet

T = TypeVar("T")


@dataclass
class Run:
    """One run; files are below ``directory``."""

    directory: Path
    is_quick: bool = False
    _written: set[str] = field(default_factory=set, init=False)

    def pick(self, full: T, quick: T) -> T:
        """Return the extent of this run."""
        return quick if self.is_quick else full

    def new_place(self, name: str) -> Path:
        """Return an empty directory for the files of a part."""
        place = self.directory / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def log_of(self, acl_set: AclSet) -> Path:
        """Return a log directory with a checkpoint of the set. Only one daemon may use it."""
        log_dir = self.directory / "sets" / acl_set.name
        if acl_set.name not in self._written:
            write_checkpoint(log_dir, acl_set.added())
            self._written.add(acl_set.name)
        return log_dir

    def copy_log(self, acl_set: AclSet, directory: Path) -> Path:
        """Return a copy of that log, for another daemon."""
        shutil.rmtree(directory / "log", ignore_errors=True)
        return Path(shutil.copytree(self.log_of(acl_set), directory / "log"))
