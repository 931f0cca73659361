from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from authorizerd.replay.plans import IngestPlan, decode_plan
from authorizerd.replay.submit.archive import Archive
from authorizerd.replay.submit.work_directory import make_work_directory

PLAN = IngestPlan(inputs=("/logs",), out="/out")
ARCHIVE = Archive(data=b"zip", sha256="0" * 64)


def test_only_the_owner_can_read_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = make_work_directory(PLAN, ARCHIVE)
    assert made.path.parent == tmp_path
    assert made.path.stat().st_mode & 0o777 == 0o700
    files = list(made.path.iterdir())
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert set(files) == {made.archive, made.plan, made.entry, made.logging}
    assert decode_plan(made.plan.read_bytes()) == PLAN
    assert "main(sys.argv[1:])" in made.entry.read_text()


def test_fault_leaves_only_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = make_work_directory(PLAN, ARCHIVE)
    made.log.write_text("a trace")
    made.remove_but_log()
    assert list(made.path.iterdir()) == [made.log]
    made.remove()
    assert list(tmp_path.iterdir()) == []
