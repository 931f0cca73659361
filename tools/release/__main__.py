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
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release.jar import build_jar
from tools.release.packages import (
    ReleaseError,
    build_client,
    build_packages,
    pack_client,
    package_chart,
    write_checksums,
    write_install_files,
)
from tools.release.source import export_commit, read_release
from tools.release.trial import try_wheel

ROOT = Path(__file__).parents[2]


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
        helm = find_program("HELM", "helm", "the chart", is_trial=untagged)
        npm = find_program("NPM", "npm", "the JavaScript client", is_trial=untagged)
        javac = find_program("JAVAC", "javac", "the Java client", is_trial=untagged)
        out = ROOT / "dist" / release.version
        with TemporaryDirectory() as folder:
            source = export_commit(ROOT, Path(folder) / "source")
            write_install_files(ROOT / ".venv/bin/python", source)
            sdist, wheel = build_packages(source, out, release.epoch)
            try_wheel(wheel, source, out / f"{sdist.name.removesuffix('.tar.gz')}.cdx.json")
            if helm is not None:
                package_chart(source, out, release, helm)
            build_client(source, out, release.epoch)
            if npm is not None:
                pack_client(source, out, release.epoch, npm)
            if javac is not None:
                build_jar(source, out, release.epoch, javac)
        write_checksums(out)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"make release: {error}\n")
        return 1
    sys.stdout.write((out / "SHA256SUMS").read_text())
    return 0


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
