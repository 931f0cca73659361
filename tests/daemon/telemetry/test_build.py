"""The build tells apart programs that have the same version."""

from __future__ import annotations

from pathlib import Path

import pytest

import authorizerd
from authorizerd.daemon.telemetry import build

RECORD = "authorizerd/a.py,sha256=A,1\nauthorizerd/b.py,sha256=B,2\n"


def read_build(monkeypatch: pytest.MonkeyPatch, record: str) -> str:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "RECORD"
            return record or None

    monkeypatch.setattr(build, "distribution", lambda name: Installed())
    build.read_build.cache_clear()
    try:
        return build.read_build()
    finally:
        build.read_build.cache_clear()


@pytest.mark.parametrize(
    ("record", "is_same"),
    [
        ("authorizerd/b.py,sha256=B,2\nauthorizerd/a.py,sha256=A,1\n", True),
        (
            f"{RECORD}authorizerd/__pycache__/a.pyc,,\nauthorizerd-1.dist-info/INSTALLER,sha256=C,4\n",
            True,
        ),
        (RECORD.replace("=B", "=C"), False),
        (RECORD.replace("b.py", "c.py"), False),
        (f"{RECORD}authorizerd/c.py,sha256=B,2\n", False),
    ],
)
def test_build_is_that_of_the_installed_modules(
    monkeypatch: pytest.MonkeyPatch, record: str, is_same: bool
) -> None:
    is_equal = read_build(monkeypatch, record) == read_build(monkeypatch, RECORD)
    assert is_equal == is_same


def test_build_of_a_checkout_changes_with_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room, root = tmp_path / "acl", tmp_path / "authorizerd"
    room.mkdir()
    root.mkdir()
    (root / "acl").symlink_to(room)
    monkeypatch.setattr(authorizerd, "__path__", [str(root)])
    builds = set()
    for name, content in (("acl/a.py", "1"), ("acl/a.py", "2"), ("b.py", "")):
        (root / name).write_text(content)
        builds.add(read_build(monkeypatch, ""))
    assert len(builds) == 3
    (root / "c.txt").write_text("")
    assert read_build(monkeypatch, "") in builds
