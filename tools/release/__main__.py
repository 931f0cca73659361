"""``make release``: build what a version publishes into ``dist/VERSION``.

The version is that of ``pyproject.toml``, the only place that has it. A release also needs the tag
``vVERSION`` on the commit, and a section of CHANGELOG.md with the version and its date.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.release.distributions import Builders, build_distribution_packages
from tools.release.jar import build_jar
from tools.release.packages import (
    Release,
    ReleaseError,
    build_client,
    build_packages,
    pack_client,
    package_chart,
    write_checksums,
    write_install_files,
)
from tools.release.provenance import write_provenance
from tools.release.source import export_commit, read_commit, read_release
from tools.release.trial import try_wheel

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = ROOT / ".venv/bin/python"
PACKED: Final = {
    "helm": "the chart",
    "npm": "the JavaScript client",
    "javac": "the Java client",
    "dpkg-deb": "the daemon for Debian",
    "rpmbuild": "the daemon for rpm",
}
"""What each program builds. A variable such as HELM or DPKG_DEB names another one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and check everything; return 1 and name the reason if something is wrong."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument(
        "--untagged",
        action="store_true",
        help="build without the version's tag, as a trial",
    )
    untagged: bool = parser.parse_args(arguments).untagged
    try:
        release = read_release(ROOT, is_tagged=not untagged)
        found = {
            name: find_program(name.upper().replace("-", "_"), name, packed, is_trial=untagged)
            for name, packed in PACKED.items()
        }
        programs = {name: path for name, path in found.items() if path is not None}
        out = ROOT / "dist" / release.version
        with TemporaryDirectory() as folder:
            source = export_commit(ROOT, Path(folder) / "source")
            write_install_files(PYTHON, source)
            build(source, out, release, programs)
            write_provenance(out, source, read_commit(ROOT), release, programs)
        write_checksums(out)
    except (ReleaseError, ValueError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"make release: {error}\n")
        return 1
    sys.stdout.write((out / "SHA256SUMS").read_text())
    return 0


def build(source: Path, out: Path, release: Release, programs: Mapping[str, str]) -> None:
    """Write the packages into ``out``, which is emptied first, and try the wheel.

    Args:
        source: the files of a commit, and those of ``write_install_files``.
        programs: the paths of the programs of ``PACKED``; what a missing one builds is left out.

    Raises:
        CalledProcessError: a program finds a fault.
        ReleaseError: the wheel does not run.
    """
    sdist, wheel = build_packages(source, out, release.epoch)
    try_wheel(wheel, source, out / f"{sdist.name.removesuffix('.tar.gz')}.cdx.json")
    builders = Builders(programs.get("dpkg-deb"), programs.get("rpmbuild"))
    build_distribution_packages(source, wheel, out, release, builders)
    if "helm" in programs:
        package_chart(source, out, release, programs["helm"])
    build_client(PYTHON, source, out, release.epoch)
    if "npm" in programs:
        pack_client(source, out, release.epoch, programs["npm"])
    if "javac" in programs:
        build_jar(source, out, release.epoch, programs["javac"])


def find_program(variable: str, name: str, packed: str, *, is_trial: bool) -> str | None:
    """Return the path of a program; in a trial, None if there is none.

    Args:
        variable: the environment variable that names another program.
        packed: what the release would lack without it.

    Raises:
        ReleaseError: the program is missing, and a release needs it.
    """
    name = os.environ.get(variable, name)
    found = shutil.which(name)
    if found is None:
        reason = f"{name}: not found: install it, or run make release {variable}=PATH"
        if not is_trial:
            raise ReleaseError(reason)
        sys.stderr.write(f"{packed} is not packaged: {reason}\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
