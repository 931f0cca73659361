"""Install the wheel with the locked versions of its dependencies, run it, and list its contents.

The list is a software bill of materials (SBOM) in CycloneDX format, with licences and dependencies.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release.packages import ReleaseError


def try_wheel(wheel: Path, source: Path, bill: Path) -> None:
    """Install and run the wheel in a new environment, and write its bill of materials.

    Raises:
        CalledProcessError: a dependency cannot be installed, or the command fails.
        ReleaseError: the command prints another version.
    """
    with TemporaryDirectory() as folder:
        environment = Path(folder)
        venv.create(environment, symlinks=True)
        python = environment / "bin" / "python"
        pip = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python))
        locked = str(source / "requirements.lock")
        _run(*pip, "install", "--require-hashes", "--only-binary", ":all:", "-r", locked)
        _run(*pip, "install", "--no-deps", "--no-index", str(wheel))
        _run(*pip, "uninstall", "--yes", "setuptools")  # only an editable installation needs it
        _run(*pip, "check")
        printed = subprocess.run(  # noqa: S603 - our own command
            [environment / "bin" / "authorizerd", "--version"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        version = wheel.name.split("-")[1]
        if printed.split()[:2] != ["authorizerd", version]:
            raise ReleaseError(f"expected the wheel to print version {version}, found {printed!r}")
        _run(
            *("-m", "cyclonedx_py", "environment", "--output-reproducible", "--validate"),
            *("--pyproject", str(source / "pyproject.toml"), "--mc-type", "application"),
            *("--output-format", "JSON", "--output-file", str(bill), str(python)),
        )


def _run(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True)  # noqa: S603 - pinned tools
