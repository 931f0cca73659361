"""The files that are made of the parsers, as they stand in the project."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.ops.manual.written import ROOT, all_commands, written


@pytest.mark.parametrize("name", written())
def test_each_file_is_that_of_the_code(name: str) -> None:
    """``make manual`` would change nothing."""
    assert (ROOT / name).read_text() == written()[name]


def test_every_command_is_there_with_all_that_its_parser_takes() -> None:
    """Those with parsers of their own, and those below replay, among them; no internal one."""
    commands = {" ".join(command.words[1:]): command for command in all_commands()}
    assert {"", "serve", "acls", "check-log", "doctor", "replay", "replay load"} <= set(commands)
    assert "worker" not in commands
    flags = {name for option in commands["doctor"].options for name in option.names}
    assert flags == {"-h", "--help", "--config", "--override", "--json"}
    assert "--allow-principal" in {each.names[0] for each in commands["acls"].options}
    assert commands["check-log"].options[1].names == ()


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_is_one_that_troff_can_print() -> None:
    """Without a warning, and with every flag of every command to the letter."""
    page = ROOT / "docs/authorizerd.1"
    printed = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-ww", page],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert printed.stderr == ""
    for command in all_commands():
        assert " ".join(command.words) in printed.stdout
        for option in command.options:
            assert ", ".join(option.names) in printed.stdout
