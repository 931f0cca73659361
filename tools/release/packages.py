"""Build the packages, the chart and the clients, so that builds are reproducible.

**Invariant:** the wheel is built from the source package, which proves that the package is
complete. The bytes depend only on the source, the version's date, and the tools pinned in
``requirements-release.lock``.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tools.mirror_wheel import stage

SUMS: Final = "SHA256SUMS"
_EXECUTABLE: Final = 0o111
UMASK: Final = 0o022
"""Packages contain file modes, which depend on the umask."""


class Release(NamedTuple):
    """A version, and the time of all files in its packages, in seconds since 1970."""

    version: str
    epoch: int


class ReleaseError(Exception):
    """There is nothing to release, or the packages are unusable; the text says why."""


def build_packages(source: Path, out: Path, epoch: int) -> tuple[Path, Path]:
    """Write the source package and the wheel into ``out``, which is emptied first.

    Args:
        source: the files; setuptools writes into this folder.
        epoch: the time of every file in the packages, in seconds since 1970.

    Returns: their paths.

    Raises:
        CalledProcessError: the build fails, or twine finds a fault.
    """
    shutil.rmtree(out, ignore_errors=True)
    _build("--sdist", source, out, epoch)
    (sdist,) = out.glob("*.tar.gz")
    _normalize_file(sdist, epoch)
    with TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        _build("--wheel", unpacked, out, epoch)
    (wheel,) = out.glob("*.whl")
    _check(sdist, wheel)
    return sdist, wheel


def write_install_files(python: Path, source: Path) -> None:
    """Write into ``source``, from its code, the files that wheels install but git does not keep.

    Args:
        python: an interpreter with the packages of requirements-dev.lock.

    Raises:
        CalledProcessError: the command fails.
    """
    subprocess.run(  # noqa: S603 - the project's own interpreter
        [python, "-m", "tools.install_files"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source / "src")},
        check=True,
    )


def package_chart(source: Path, out: Path, release: Release, helm: str) -> None:
    """Write the Helm chart, with the version of the release, into ``out``.

    Args:
        helm: the program.

    Raises:
        CalledProcessError: helm finds a fault.
    """
    version = ("--version", release.version, "--app-version", release.version)
    subprocess.run(  # noqa: S603 - a program that the caller chose
        [helm, "package", source / "ops/helm", *version, "--destination", out],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (chart,) = out.glob(f"authorizerd-{release.version}.tgz")
    _normalize_file(chart, release.epoch)


def build_client(python: Path, source: Path, out: Path, epoch: int) -> None:
    """Write the wheels of the Python client and of its mirror into ``out``.

    Args:
        python: an interpreter with the packages of requirements.lock.

    Raises:
        CalledProcessError: the build fails, or twine finds a fault.
    """
    _build("--wheel", source / "clients/python", out, epoch)
    with TemporaryDirectory() as folder:
        _build("--wheel", stage(source, Path(folder), python), out, epoch)
    _check(*out.glob("authorizerd_client-*.whl"), *out.glob("authorizerd_mirror-*.whl"))


def pack_client(source: Path, out: Path, epoch: int, npm: str) -> None:
    """Write the package of the JavaScript client into ``out``.

    Args:
        npm: the program.

    Raises:
        CalledProcessError: npm finds a fault.
    """
    subprocess.run(  # noqa: S603 - a program that the caller chose
        [npm, "pack", "--silent", "--pack-destination", out],
        cwd=source / "clients/javascript",
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (packed,) = out.glob("authorizerd-client-*.tgz")
    _normalize_file(packed, epoch)


def _build(kind: str, source: Path, out: Path, epoch: int) -> None:
    _run(
        *("-m", "build", "--no-isolation", kind, "--outdir", str(out), str(source)),
        SOURCE_DATE_EPOCH=str(epoch),
    )


def _check(*packages: Path) -> None:
    _run("-m", "twine", "check", "--strict", *map(str, packages))


def _run(*words: str, **environment: str) -> None:
    subprocess.run(  # noqa: S603 - pinned tools
        [sys.executable, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        umask=UMASK,
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
    )


def _normalize_file(path: Path, epoch: int) -> None:
    path.write_bytes(normalize(path.read_bytes(), epoch))


def normalize(data: bytes, epoch: int) -> bytes:
    """Return a compressed tar archive with sorted entries, without owners and build times."""
    out = BytesIO()
    with (
        tarfile.open(fileobj=BytesIO(data)) as read,
        gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as written,
    ):
        for entry in sorted(read.getmembers(), key=lambda each: each.name):
            entry.mtime = epoch
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & _EXECUTABLE else 0o644
            entry.pax_headers = {}
            written.addfile(entry, read.extractfile(entry) if entry.isfile() else None)
    return out.getvalue()


def write_checksums(out: Path) -> None:
    """Write the SHA-256 of each file, in the format of ``sha256sum --check``."""
    files = sorted(path for path in out.iterdir() if path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / SUMS).write_text("".join(lines))
