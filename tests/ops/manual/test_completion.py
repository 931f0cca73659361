"""What a shell completes: bash is asked itself; of the others the texts are looked at."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ops.manual.completion import bash_completion, fish_completion, zsh_completion
from ops.manual.surface import Command, Option
from tests.ops.manual.written import ROOT

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_authorizerd
printf '%s\\n' "${COMPREPLY[@]}"
"""
HOSTILE = "it's [a]: $(touch x) `touch x` \\"
NASTY = [
    Command(words=("authorizerd",), help="it", commands=("x",)),
    Command(
        words=("authorizerd", "x"),
        help=HOSTILE,
        options=(Option(names=("--y",), value="Z", help=HOSTILE),),
    ),
]

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def complete(*words: str) -> list[str]:
    script = ROOT / "ops/completion/authorizerd.bash"
    answer = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", script, "authorizerd", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert answer.stderr == ""
    return answer.stdout.split()


@needs_bash
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["d"], ["doctor"]),
        (["replay", "w"], ["whatif"]),
        (["doctor", "--"], ["--help", "--config", "--override", "--json"]),
        (["acls", "--allow-p"], ["--allow-principal"]),
        (["replay", "load", "--surface", ""], ["stream", "http"]),
        (["replay", "load", "--surface", "h"], ["http"]),
        (["replay", "load", "--surface", "http", "--dry"], ["--dry-run"]),
        (["explain", "--topic", "doctor", "--principal", "x", "--ho"], ["--host"]),
        (["doctor", "--config", "ser"], []),
        (["check-log", ""], []),
        (["nothing", "--j"], []),
    ],
)
def test_bash_completes_commands_flags_and_choices(words: list[str], expected: list[str]) -> None:
    """Where nothing is offered bash offers files; a value that is called as a command is none."""
    assert complete(*words) == expected


@needs_bash
def test_bash_runs_nothing_of_what_a_help_says(tmp_path: Path) -> None:
    """The script is read without error, and helps are no part of it."""
    script = tmp_path / "script"
    script.write_text(bash_completion(NASTY))
    subprocess.run(["bash", "--norc", script], cwd=tmp_path, timeout=30, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["script"]


def test_zsh_takes_a_help_for_text() -> None:
    """Each option is one word of the shell's, with what _arguments would read in it escaped."""
    script = zsh_completion(NASTY)
    option = next(line for line in script.splitlines() if "--y" in line).strip()
    assert shlex.split(option) == [
        "*--y[it's \\[a\\]\\: $(touch x) `touch x` \\\\]:Z:_files",
    ]
    assert "        x) _authorizerd_x ;;" in script.splitlines()
    assert script.startswith("#compdef authorizerd\n")


def test_fish_takes_a_help_for_text() -> None:
    """A command is offered once, before any is typed; a flag behind its own."""
    command, option = fish_completion(NASTY).splitlines()[2:]
    quoted = "'it\\'s [a]: $(touch x) `touch x` \\\\'"
    assert command == (
        "complete -c authorizerd -f -n 'not __fish_seen_subcommand_from x' -a x -d " + quoted
    )
    assert option == (
        "complete -c authorizerd -n '__fish_seen_subcommand_from x' -l y -r -d " + quoted
    )
