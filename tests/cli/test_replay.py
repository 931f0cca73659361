"""``authorizerd replay`` becomes the pipeline's own command."""

from __future__ import annotations

import os
import sys

import pytest

from authorizerd.cli import replay as replay_command
from authorizerd.cli.main import main


class Replaced(Exception):
    """This process would be another by now."""


def test_the_words_are_handed_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the same interpreter, in the same process: exit code and signals are that one's."""
    became: list[tuple[str, list[str]]] = []

    def execv(path: str, words: list[str]) -> None:
        became.append((path, words))
        raise Replaced

    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Replaced):
        main(["replay", "ingest", "--input", "a b", "--help"])
    words = [sys.executable, "-P", "-m", "authorizerd.replay", "ingest", "--input", "a b", "--help"]
    assert became == [(sys.executable, words)]


def test_an_installation_without_the_pipelines_libraries_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and exit code 1, where an import would fail with a traceback."""
    monkeypatch.setattr(replay_command, "find_spec", lambda _: None)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it was begun"))
    assert main(["replay", "ingest"]) == 1
    assert capsys.readouterr().err == (
        "authorizerd: replay: not installed: jinja2, pyarrow, yaml; "
        f"{sys.executable} -m pip install 'authorizerd[replay]'\n"
    )
