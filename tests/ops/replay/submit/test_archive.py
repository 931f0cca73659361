from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import immutables
import msgspec

from authorizerd.replay.submit.archive import PACKAGES, make_archive

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


def test_jobs_import_from_the_archive_only(tmp_path: Path) -> None:
    """Runs without site packages, except those that an executor has."""
    archive = make_archive()
    path = tmp_path / archive.name
    path.write_bytes(archive.data)
    for module in (immutables, msgspec):
        (tmp_path / module.__name__).symlink_to(Path(str(module.__file__)).parent)
    with zipfile.ZipFile(path) as opened:
        names = opened.namelist()
    assert names == sorted(names)
    assert {name.partition("/")[0] for name in names} == {"authorizerd"}
    packages = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert packages == {"acl", "image", "protocol", "replay"}
    script = (
        "import authorizerd.acl.decision, authorizerd.replay.plans, authorizerd.replay.spark.probe"
        "; print('whole')"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-P", "-c", script], env={"PYTHONPATH": f"{path}:{tmp_path}"},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("whole\n", "")
