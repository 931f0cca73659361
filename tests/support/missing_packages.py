"""Print the Debian packages of ``tests/skips.toml`` whose programs are not installed.

It needs no library, so that ``.ci/run`` can install the packages before the libraries.
"""

import shutil
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

PACKAGES: Final = "packages"
SKIPS: Final = Path(__file__).parents[1] / "skips.toml"


@cache
def read_skips() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads(SKIPS.read_text())


def missing_packages() -> list[str]:
    """Return the Debian packages whose programs are not installed, each once."""
    rows = read_skips()[PACKAGES]
    return sorted({row["package"] for row in rows if shutil.which(row["program"]) is None})


if __name__ == "__main__":
    sys.stdout.write("".join(f"{package}\n" for package in missing_packages()))
