from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import crc32c
import immutables
import msgspec

from authorizerd.replay.submit.archive import PACKAGE_NAME, PACKAGES, make_archive, write_package

SOURCES = Path(__file__).parents[4] / "src/authorizerd"


def copy_sources(to: Path) -> Path:
    to = to / SOURCES.name
    to.mkdir(parents=True)
    shutil.copy(SOURCES / "__init__.py", to)
    for package in PACKAGES:
        shutil.copytree(SOURCES / package, to / package)
    return to


def test_equal_sources_give_equal_bytes(tmp_path: Path) -> None:
    copied = copy_sources(tmp_path / "copy")
    os.utime(copied / "acl/model.py", (1_600_000_000, 1_600_000_000))
    (copied / "acl/model.py").chmod(0o600)
    (copied / "acl/__pycache__").mkdir(exist_ok=True)
    (copied / "acl/__pycache__/model.cpython-311.pyc").write_bytes(b"compiled")
    archive = make_archive()
    assert make_archive(copied) == archive
    assert archive.sha256 == hashlib.sha256(archive.data).hexdigest()
    assert archive.name == f"authorizerd-replay-{archive.sha256[:16]}.zip"


def test_changed_code_changes_the_name(tmp_path: Path) -> None:
    copied = copy_sources(tmp_path / "copy")
    with open(copied / "acl/model.py", "a") as file:
        file.write("# another line\n")
    assert make_archive(copied).name != make_archive().name


def run_from_archive(
    folder: Path, modules: tuple[ModuleType, ...], script: str
) -> subprocess.CompletedProcess[str]:
    """Run ``script`` with the archive and ``modules``, and without other site packages."""
    archive = make_archive()
    path = folder / archive.name
    path.write_bytes(archive.data)
    for module in modules:
        installed = Path(str(module.__file__)).parent
        for each in (installed, *installed.parent.glob(f"{module.__name__}-*.dist-info")):
            (folder / each.name).symlink_to(each)
    return subprocess.run(
        [sys.executable, "-S", "-P", "-c", script], env={"PYTHONPATH": f"{path}:{folder}"},
        cwd=folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_executor_imports_its_code_from_the_archive_only(tmp_path: Path) -> None:
    script = (
        "import authorizerd.acl.decision, authorizerd.replay.plans; "
        "import authorizerd.replay.spark.python_modules; print('whole')"
    )
    ran = run_from_archive(tmp_path, (immutables, msgspec), script)
    assert (ran.stdout, ran.stderr) == ("whole\n", "")


def test_driver_imports_every_command_from_the_archive_only(tmp_path: Path) -> None:
    script = """
import sys
from authorizerd.replay.application import new_parser
from authorizerd.replay.jobs import JOBS
for name in JOBS:
    try:
        new_parser().parse_words([name, "--help"])
    except SystemExit:
        pass
ours = [each for name, each in sys.modules.items() if name.startswith("authorizerd")]
print({each.__file__.partition(".zip")[0] for each in ours})
"""
    ran = run_from_archive(tmp_path, (crc32c, immutables, msgspec), script)
    assert ran.stderr == ""
    assert ran.stdout.count("usage: authorizerd-replay.py") == 4
    assert ran.stdout.splitlines()[-1] == str(
        {str(tmp_path / make_archive().name.removesuffix(".zip"))}
    )


def test_archive_has_no_module_of_the_submitting_command(tmp_path: Path) -> None:
    archive = write_package(tmp_path / "new")
    with zipfile.ZipFile(tmp_path / "new" / PACKAGE_NAME) as opened:
        names = opened.namelist()
    assert names == sorted(names)
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == set(PACKAGES)
    assert not [name for name in names if name.startswith("authorizerd/replay/submit/")]
    of_cli = {name.split("/")[2] for name in names if name.startswith("authorizerd/cli/")}
    assert of_cli == {"__init__.py", "program"}
    assert (tmp_path / "new" / PACKAGE_NAME).read_bytes() == archive.data
    assert write_package(tmp_path / "new") == archive
