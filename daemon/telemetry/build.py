"""The version of this program, and a hash that distinguishes its builds.

The version is set manually, so all commits between two releases share one, such as ``1.1.0.dev0``.
The build is a hash of the program's source files. It needs neither git nor a build step, and is the
same for a checkout and for a wheel built from it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import Distribution, distribution, version
from pathlib import Path
from typing import Final

import authorizerd

_PACKAGE: Final = "authorizerd"
_BUILD_DIGITS: Final = 12


@cache
def read_version() -> str:
    """Return the version of the installed package. The first call blocks."""
    return version(_PACKAGE)


@cache
def read_build() -> str:
    """Return the build: the first digits of a hash of all modules. The first call blocks."""
    lines = sorted(_list_recorded(distribution(_PACKAGE))) or sorted(_list_modules())
    return sha256("\n".join(lines).encode()).hexdigest()[:_BUILD_DIGITS]


def describe_version() -> str:
    """Return ``1.1.0.dev0 (build 0123456789ab)``."""
    return f"{read_version()} (build {read_build()})"


def _list_recorded(package: Distribution) -> Iterator[str]:
    """Yield the modules in the package's RECORD with their hashes; none for a checkout.

    Source: PEP 376; the specification "Recording installed projects".
    """
    for line in (package.read_text("RECORD") or "").splitlines():
        name, _, rest = line.partition(",")
        if name.startswith(f"{_PACKAGE}/") and name.endswith(".py"):
            yield f"{name},{rest.partition(',')[0]}"


def _list_modules() -> Iterator[str]:
    """Yield the imported modules in RECORD's form."""
    root = Path(authorizerd.__path__[0])
    # In a checkout, the packages are links, which rglob does not follow.
    for start in (root, *filter(Path.is_symlink, root.iterdir())):
        for path in start.rglob("*.py"):
            digest = urlsafe_b64encode(sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
            yield f"{_PACKAGE}/{path.relative_to(root).as_posix()},sha256={digest}"
