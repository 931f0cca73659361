"""Lay out the files of the packages for Linux distributions: one tree for each architecture.

``/opt/authorizerd`` is a virtual environment that several versions of Python can run: modules that
are the same for all of them are in ``lib/shared``, the others in the folder of their version. The
other files are links, or copies of what the wheel has in ``share``.

**Invariant:** the tree has only files of the wheel and of wheels whose hashes are in
``requirements.lock``. Nothing is compiled, so a tree for another architecture can be built, too.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

PYTHONS: Final = ("3.11", "3.12", "3.13")
"""The versions that ``docs/install.md`` supports."""
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""The names of the architectures: Debian's, and those of wheels and of rpm."""
CONFIGURATION: Final = (
    "etc/authorizerd/environment",
    "etc/authorizerd/server.properties",
    "etc/logrotate.d/authorizerd",
)
"""The files that an administrator may change, and an upgrade keeps."""
_HOME: Final = "/opt/authorizerd"
_GLIBC_MINORS: Final = range(28, 16, -1)
"""Of glibc 2: wheels for an older one run, too."""
_COMMAND: Final = f"""#!{_HOME}/bin/python3
import sys
from authorizerd.cli.__main__ import run_and_exit
sys.exit(run_and_exit())
"""
_SYSTEM_FILES: Final = {
    "*.service": "usr/lib/systemd/system/{name}",
    "*.socket": "usr/lib/systemd/system/{name}",
    "*.timer": "usr/lib/systemd/system/{name}",
    "authorizerd.sysusers.conf": "usr/lib/sysusers.d/authorizerd.conf",
    "authorizerd.tmpfiles.conf": "usr/lib/tmpfiles.d/authorizerd.conf",
    "authorizerd.logrotate": "etc/logrotate.d/authorizerd",
    "environment": "etc/authorizerd/environment",
    "server.properties": "etc/authorizerd/server.properties",
}
"""The paths of the files of ``ops/systemd``, as in its README."""


def lay_out(source: Path, wheel: Path, machine: str, root: Path) -> None:
    """Write the tree of an architecture into a new folder.

    Args:
        source: the repository, which has ``requirements.lock``.
        machine: a value of ``MACHINES``.

    Raises:
        CalledProcessError: a library has no wheel for the architecture, or another hash.
    """
    home = root / _HOME.lstrip("/")
    with TemporaryDirectory() as folder:
        wheels = {
            python: _download(source / "requirements.lock", python, machine, Path(folder) / python)
            for python in PYTHONS
        }
        shared = set.intersection(*(set(each) for each in wheels.values()))
        for name in sorted(shared):
            _unpack(wheels[PYTHONS[0]][name], home / "lib/shared")
        _unpack(wheel, home / "lib/shared")
        for python, paths in wheels.items():
            own = home / f"lib/python{python}/site-packages"
            for name in sorted(set(paths) - shared):
                _unpack(paths[name], own)
            (own / "shared.pth").write_text("../../shared\n")
    _write_home(home)
    _write_system_files(source, home, root)


def _download(lock: Path, python: str, machine: str, folder: Path) -> dict[str, Path]:
    """Download the libraries' wheels for a version of Python; return their paths by name."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS]
    chosen = [f"--platform={each}" for each in (*platforms, f"manylinux2014_{machine}")]
    subprocess.run(  # noqa: S603 - pinned tools
        [
            sys.executable, "-m", "pip", "download", "--require-hashes", "--only-binary=:all:",
            "--quiet", "--disable-pip-version-check", "--no-deps", "--python-version", python,
            *chosen, "--dest", folder, "--requirement", lock,
        ],
        check=True,
    )  # fmt: skip
    # Only an editable installation needs setuptools.
    return {each.name: each for each in folder.iterdir() if not each.name.startswith("setuptools-")}


def _unpack(wheel: Path, folder: Path) -> None:
    """Extract a wheel. Its files in ``share`` go below the environment."""
    prefix = "-".join(wheel.name.split("-")[:2]) + ".data/"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    data = folder / prefix
    if data.exists():
        shutil.move(data / "data/share", folder.parents[1] / "share")
        data.joinpath("data").rmdir()
        data.rmdir()  # fails if the wheel installs anything else


def _write_home(home: Path) -> None:
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    command = home / "bin/authorizerd"
    command.write_text(_COMMAND)
    command.chmod(0o755)
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")


def _write_system_files(source: Path, home: Path, root: Path) -> None:
    share = root / "usr/share"
    share.mkdir(parents=True)
    for each in (home / "share").iterdir():
        if each.name != "authorizerd":
            shutil.move(each, share)
    for page in (share / "man").rglob("*.1"):
        page.with_suffix(".1.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    for pattern, place in _SYSTEM_FILES.items():
        for each in (home / "share/authorizerd/systemd").glob(pattern):
            _copy(each, root / place.format(name=each.name))
    for name, copied in (("LICENSE", "copyright"), ("CHANGELOG.md", ""), ("SECURITY.md", "")):
        _copy(source / name, share / "doc/authorizerd" / (copied or name))
    (root / "usr/bin").mkdir()
    (root / "usr/bin/authorizerd").symlink_to(f"{_HOME}/bin/authorizerd")


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def normalize_tree(root: Path, epoch: int) -> None:
    """Give all files modes and the time of a release. Others cannot read the configuration."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            is_open = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_open else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    (root / "etc/authorizerd").chmod(0o750)
    for name in CONFIGURATION[:2]:
        (root / name).chmod(0o640)
