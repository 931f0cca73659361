"""Build the wheel of the Python mirror: its own modules, and those of authorizerd that decide.

``python -m tools.mirror_wheel FOLDER`` writes the wheel into a folder. In it, the modules of
authorizerd have another name, so that an installed authorizerd of another release does not matter.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MIRROR: Final = "authorizerd_client.mirror"
_COPIED: Final = f"{MIRROR}._authorizerd"
_LIST_MODULES: Final = f"""
import sys, {MIRROR}
for name, module in sorted(sys.modules.items()):
    if name.startswith(("authorizerd.", "{MIRROR}")):
        print(name, module.__file__)
"""


def stage(source: Path, to: Path, python: str | Path = sys.executable) -> Path:
    """Write the sources of the wheel below a folder, and return it.

    Args:
        source: the repository.
        python: an interpreter with the packages of requirements.lock.

    Raises:
        CalledProcessError: the mirror cannot be imported.
    """
    shutil.copytree(source / "clients/mirror", to, dirs_exist_ok=True)
    for name, file in _find_modules(source, python).items():
        path = to / "src" / Path(*name.split("."))
        path = path / "__init__.py" if file.name == "__init__.py" else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            re.sub(r"\bauthorizerd\.(?=acl\b|actors\b|image\b)", f"{_COPIED}.", file.read_text())
        )
    init = to / "src" / Path(*_COPIED.split(".")) / "__init__.py"
    init.write_text('"""The modules of authorizerd that decide, copied from one release."""\n')
    return to


def _find_modules(source: Path, python: str | Path) -> dict[str, Path]:
    """Return the file of each module by its name in the wheel."""
    path = f"sys.path[:0] = {[str(source / 'src'), str(source / 'clients/python/src')]!r}"
    listed = subprocess.run(  # noqa: S603 - an interpreter of ours
        [python, "-c", f"import sys; {path}\n{_LIST_MODULES}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = dict(line.split(" ", 1) for line in listed.splitlines())
    return {
        re.sub(r"^authorizerd\.", f"{_COPIED}.", name): Path(file) for name, file in found.items()
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603 - this interpreter
            [
                sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
                "--no-build-isolation", "--wheel-dir", sys.argv[1], stage(ROOT, Path(folder)),
            ],
            check=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
