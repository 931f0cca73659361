"""Write the version of ``pyproject.toml`` into the clients: ``python -m tools.release.versions``.

The daemon and the clients are released together, with one version.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_FORM: Final = re.compile(r"(\d+\.\d+\.\d+)(?:\.dev(\d+))?")


def read_version(root: Path = ROOT) -> str:
    """Return the version in ``pyproject.toml``, such as ``1.2.0`` or ``1.2.0.dev0``.

    Raises:
        ValueError: it has another form, which npm and Maven would not sort as pip does.
    """
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if _FORM.fullmatch(version) is None:
        raise ValueError(
            f"pyproject.toml: expected a version such as 1.2.0 or 1.2.0.dev0, found {version}"
        )
    return version


def in_package_form(version: str) -> str:
    """Return the version for dpkg and rpm, which sort ``1.2.0~dev0`` before ``1.2.0``."""
    return version.replace(".dev", "~dev")


def write_manifests(root: Path = ROOT) -> Mapping[Path, str]:
    """Return the text of each client's manifest with the version of ``pyproject.toml``."""
    version = read_version(root)
    python = (r'^version = "(.*)"$', version)
    lines = {
        "python/pyproject.toml": (python,),
        "mirror/pyproject.toml": (python, (r'"authorizerd_client>=([^"]*)"', version)),
        "javascript/package.json": ((r'^  "version": "(.*)",$', version.replace(".dev", "-dev.")),),
        "java/pom.xml": (
            (r"^    <version>(.*)</version>$", re.sub(r"\.dev\d+", "-SNAPSHOT", version)),
        ),
    }
    manifests = {}
    for name, changes in lines.items():
        path = root / "clients" / name
        text = path.read_text()
        for pattern, changed in changes:
            found = re.search(pattern, text, re.MULTILINE)
            assert found is not None, f"{path}: no line matches {pattern}"
            text = text[: found.start(1)] + changed + text[found.end(1) :]
        manifests[path] = text
    return manifests


if __name__ == "__main__":
    for manifest, written in write_manifests().items():
        manifest.write_text(written)
