"""Only a terminal gets colours."""

from __future__ import annotations

import io

import pytest

from authorizerd.cli.output import paint


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("FAIL  nobody may READ", "\x1b[31mFAIL\x1b[0m  nobody may READ"),
        ("warning: disk: slow.", "\x1b[33mwarning:\x1b[0m disk: slow."),
        ("+   ALLOW User:a", "\x1b[32m+\x1b[0m   ALLOW User:a"),
        ("found: ok", "found: ok"),
        ("", ""),
    ],
)
def test_mark_of_a_line_has_a_colour(line: str, expected: str) -> None:
    assert paint(line, _Terminal()) == expected
    assert paint(line, io.StringIO()) == line


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_environment_turns_colours_off(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert paint("FAIL  it", _Terminal()) == "FAIL  it"
