"""Build the jar of the Java client with ``javac`` alone: ``python -m tools.release.jar DIRECTORY``.

**Invariant:** the bytes depend only on the sources, the time, and the version of javac.
"""

import re
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

RELEASE: Final = 17
"""The oldest version of Java that the client runs on."""
_MANIFEST: Final = "Manifest-Version: 1.0\r\nImplementation-Version: {}\r\n\r\n"
_ROOT: Final = Path(__file__).parents[2]


def read_version(client: Path) -> str:
    """Return the version in ``pom.xml``."""
    text = (client / "pom.xml").read_text()
    found = re.search(r"^    <version>(.+)</version>$", text, re.MULTILINE)
    assert found is not None
    return found[1]


def build_jar(source: Path, out: Path, epoch: int, javac: str) -> Path:
    """Write the jar of the Java client into ``out``, and return its path.

    Args:
        source: the root of the repository.
        epoch: the time of every file in the jar, in seconds since 1970.
        javac: the compiler, of Java 17 or later.

    Raises:
        CalledProcessError: the compiler finds a fault, or is too old.
    """
    client = source / "clients" / "java"
    version = read_version(client)
    sources = sorted(str(each) for each in (client / "src" / "main" / "java").rglob("*.java"))
    files = {"META-INF/MANIFEST.MF": _MANIFEST.format(version).encode()}
    with TemporaryDirectory() as folder:
        options = ["--release", str(RELEASE), "-Xlint:all", "-Xdoclint:all/protected", "-Werror"]
        command = [javac, *options, "-d", folder, *sources]
        subprocess.run(command, check=True)  # noqa: S603 - the caller chose the compiler
        for each in sorted(Path(folder).rglob("*.class")):
            files[each.relative_to(folder).as_posix()] = each.read_bytes()
    files["META-INF/LICENSE"] = (client / "LICENSE").read_bytes()
    jar = out / f"authorizerd-client-{version}.jar"
    out.mkdir(parents=True, exist_ok=True)
    moment = datetime.fromtimestamp(epoch, UTC)
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, moment.timetuple()[:6])
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)
    return jar


if __name__ == "__main__":
    build_jar(_ROOT, Path(sys.argv[1]), 315_619_200, "javac")  # 1980-01-02, as in pom.xml
