from __future__ import annotations

import sys
from pathlib import Path

import pytest

from authorizerd.replay.spark import python_modules
from authorizerd.replay.spark.python_modules import missing_modules


def test_module_that_does_not_load_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_wheel.py").write_text("raise ImportError('no such symbol')")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("json", "broken_wheel", "not_there_at_all")
    assert missing_modules(names) == ("broken_wheel", "not_there_at_all")
    monkeypatch.setattr(python_modules, "PYTHON_MIN", (sys.version_info.major + 1, 0))
    assert missing_modules(("json",)) == ("Python 4.0",)
