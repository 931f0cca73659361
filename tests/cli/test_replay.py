"""``authorizerd replay`` becomes the process of ``authorizerd.replay``."""

from __future__ import annotations

import os
import sys

import pytest

from authorizerd.cli import commands
from authorizerd.cli.main import main


class Replaced(Exception):
    """Raised where the process would be replaced."""


def test_process_becomes_replay_with_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[tuple[str, list[str]]] = []

    def execv(path: str, words: list[str]) -> None:
        became.append((path, words))
        raise Replaced

    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Replaced):
        main(["replay", "ingest", "--input", "a b", "--help"])
    words = [sys.executable, "-P", "-m", "authorizerd.replay", "ingest", "--input", "a b", "--help"]
    assert became == [(sys.executable, words)]


def test_missing_libraries_are_named_with_the_pip_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda _: None)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("replay was started"))
    assert main(["replay", "ingest"]) == 1
    assert capsys.readouterr().err == (
        "authorizerd: replay: not installed: jinja2, pandas, pyarrow, yaml. Run: "
        f"{sys.executable} -m pip install 'authorizerd[replay]'\n"
    )


@pytest.mark.parametrize("command", ["usage", "whatif"])
def test_local_engine_starts_without_the_extra(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads audit logs without these libraries."""

    def execv(path: str, words: list[str]) -> None:
        raise Replaced

    monkeypatch.setattr(commands, "find_spec", lambda _: None)
    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Replaced):
        main(["replay", command, "--logs", "audit.log"])
