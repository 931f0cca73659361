"""The first word after ``acls`` chooses a command; all other words are those of kafka-acls."""

from pathlib import Path

import pytest

from authorizerd.cli.commands import ACLS_COMMANDS
from tests.support.acls import acl
from tests.support.log_files import added, write_log
from tests.support.printed import run_main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "log", [added(1, acl("User:alice", topic="orders"))])
    return tmp_path


@pytest.mark.parametrize(
    "words",
    ["--list plan --log-dir log", "--list --log-dir log plan", "orders --list --log-dir log"],
)
def test_other_words_are_ignored_as_in_kafka_acls(words: str) -> None:
    assert "principal=User:alice" in run_main("acls", *words.split()).out


@pytest.mark.parametrize(("words", "meant"), [
    ("improt a.yaml --to b.yaml", "import"), ("Plan a.yaml", "plan"), ("plans --list", "plan"),
])  # fmt: skip
def test_first_word_that_resembles_a_command_is_an_error(words: str, meant: str) -> None:
    said = f"unknown command '{words.split()[0]}' (did you mean {meant}?)"
    assert said in run_main("acls", *words.split(), code=2).err


def test_help_of_acls_lists_the_commands() -> None:
    error = run_main("acls", "--help", code=1).err  # the code of kafka-acls
    for name in ACLS_COMMANDS:
        assert f"\nacls {name} " in error


@pytest.mark.parametrize("name", ACLS_COMMANDS)
def test_each_command_has_its_own_help(name: str) -> None:
    assert run_main("acls", name, "--help").out.startswith(f"usage: authorizerd acls {name} ")
