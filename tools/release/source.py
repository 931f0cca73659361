"""Read the commit of a release, its version and its date."""

from __future__ import annotations

import re
import subprocess
import tarfile
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Final

from tools.release.packages import Release, ReleaseError
from tools.release.versions import read_version

_SECTION: Final = r"^## {version} - (\d{{4}}-\d\d-\d\d)$"


def read_release(root: Path, *, is_tagged: bool) -> Release:
    """Return the version of the checked-out commit.

    Args:
        is_tagged: False if the commit need not have the version's tag. A development version then
            needs no section in the changelog: its time is that of the commit.

    Raises:
        ReleaseError: files have changes, the tag is missing, or the changelog lacks the version.
    """
    version = read_version(root)
    if ".dev" in version and not is_tagged:
        epoch = int(_git(root, "log", "-1", "--format=%ct"))
    else:
        epoch = read_epoch((root / "CHANGELOG.md").read_text(), version)
    release = Release(version, epoch)
    changed = _git(root, "status", "--porcelain", "--untracked-files=no").decode()
    if changed:
        raise ReleaseError(f"expected no uncommitted changes, found:\n{changed.rstrip()}")
    tags = _git(root, "tag", "--points-at", "HEAD").decode().split()
    if is_tagged and f"v{version}" not in tags:
        raise ReleaseError(
            f"expected the tag v{version} on this commit, found {', '.join(tags) or 'none'}. "
            f"For a trial without it, run make release UNTAGGED=1"
        )
    return release


def read_epoch(changelog: str, version: str) -> int:
    """Return the date of a version's section, as seconds since 1970.

    Raises:
        ReleaseError: the changelog has no such section with a date.
    """
    found = re.search(_SECTION.format(version=re.escape(version)), changelog, re.MULTILINE)
    if found is None:
        raise ReleaseError(f"CHANGELOG.md: expected a section '## {version} - YYYY-MM-DD'")
    return int(datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp())


def read_commit(root: Path) -> str:
    """Return the id of the checked-out commit."""
    return _git(root, "rev-parse", "HEAD").decode().strip()


def export_commit(root: Path, folder: Path) -> Path:
    """Write the files of the checked-out commit to a new folder, and return it."""
    with tarfile.open(fileobj=BytesIO(_git(root, "archive", "HEAD"))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _git(root: Path, *words: str) -> bytes:
    return subprocess.run(  # noqa: S603 - words of this module
        ["git", *words], cwd=root, check=True, stdout=subprocess.PIPE
    ).stdout
