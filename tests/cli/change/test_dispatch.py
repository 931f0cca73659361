"""The first word after ``acls`` chooses a command; all other words are those of kafka-acls."""

from pathlib import Path

import pytest

from authorizerd.cli.commands import ACLS_COMMANDS
from authorizerd.cli.main import main
from tests.support.acls import acl
from tests.support.fixture_types import Capture
from tests.support.log_files import added, write_log


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "log", [added(1, acl("User:alice", topic="orders"))])
    return tmp_path


@pytest.mark.parametrize(
    "words",
    ["--list plan --log-dir log", "--list --log-dir log plan", "orders --list --log-dir log"],
)
def test_other_words_are_ignored_as_in_kafka_acls(words: str, capsys: Capture) -> None:
    assert main(["acls", *words.split()]) == 0
    assert "principal=User:alice" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["improt a.yaml --to b.yaml", "Plan a.yaml", "plans --list"])
def test_first_word_that_resembles_a_command_is_an_error(words: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["acls", *words.split()])
    assert ended.value.code == 2
    first = words.split()[0]
    meant = {"improt": "import"}.get(first, "plan")
    assert f"unknown command '{first}' (did you mean {meant}?)" in capsys.readouterr().err


def test_help_of_acls_lists_the_commands(capsys: Capture) -> None:
    assert main(["acls", "--help"]) == 1  # as in kafka-acls
    error = capsys.readouterr().err
    for name in ACLS_COMMANDS:
        assert f"\nacls {name} " in error


@pytest.mark.parametrize("name", ACLS_COMMANDS)
def test_each_command_has_its_own_help(name: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["acls", name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: authorizerd acls {name} ")
