"""``--json`` prints one document instead of lines, and only a terminal gets colours."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from authorizerd.cli.output import paint
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.protocol.decisions.search_results import HOST_CHARACTERS_MAX
from tests.support.acls import acl
from tests.support.fixture_types import MonkeyPatch
from tests.support.log_files import added, write_log
from tests.support.printed import run_main
from tools.manual.command_tree import command_tree, each_command

PAGE = (Path(__file__).parents[2] / "docs/command-line.md").read_text(encoding="utf-8")


def run(code: int, *words: str | Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run_main(*words, "--json", code=code).out)
    return document


def test_page_says_which_command_has_the_flag_and_which_uses_the_profile() -> None:
    """A command without it has a reason."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    said = {
        name.strip("`"): (json_cell, profile_cell)
        for names, json_cell, profile_cell in rows
        if not json_cell.isdigit()  # a table of exit codes
        for name in names.split(", ")
    }
    flags = {
        name.removeprefix("authorizerd "): {
            flag for action in actions for flag in action.option_strings
        }
        for name, actions in each_command(command_tree())
    }
    assert said.keys() == flags.keys() - {"authorizerd", "replay", "routes"}
    for name, (json_cell, profile_cell) in said.items():
        assert json_cell == "yes" if "--json" in flags[name] else json_cell.startswith("no: ")
        uses_profile = not flags[name].isdisjoint(("--bootstrap-server", "--acls"))
        assert profile_cell == "yes" if uses_profile else profile_cell.startswith("no: ")


def test_format_and_token_print_what_they_made(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=3\nlog.dirs={tmp_path / 'log'}\n")
    document = run(0, "format", "--config", config, "--cluster-id", "c")
    assert document == {"log_dir": str(tmp_path / "log"), "cluster_id": "c", "node_id": 3}
    document = run(0, "token", "--principal", "User:a", "--id", "i")
    assert document["id"] == "i"
    assert document["token"].startswith("i.")
    assert document["line"].split()[0] == "i"


def test_document_has_all_hosts_as_the_lines_have(tmp_path: Path) -> None:
    """The bound of an answer on a decision port does not apply."""
    zone = "e" * 100
    hosts = [f"fe80:0:0:0:0:0:0:{number:x}%{zone}" for number in range(0x1000, 0x1000 + 9_000)]
    assert sum(map(len, hosts)) > HOST_CHARACTERS_MAX
    rules = [acl("User:a", "READ", topic="t", host=each) for each in hosts]
    write_log(tmp_path, [added(number, each) for number, each in enumerate(rules, 1)])
    question = ("who-can", "READ", "--topic", "t", "--log-dir", tmp_path)
    assert run(0, *question)["principals"][0]["hosts"]["only"] == hosts


def test_listing_is_a_document_that_import_reads(tmp_path: Path) -> None:
    log_dir, copy = tmp_path / "log", tmp_path / "acls.json"
    rejected = acl("User:b", topic="")  # Kafka's earliest releases accepted it
    write_log(log_dir, [added(1, acl("User:a", topic="t")), added(2, acl("User:b", topic="t"))])
    document = run(0, "acls", "--list", "--log-dir", log_dir)
    assert [entry["principal"] for entry in document["acls"]] == ["User:a", "User:b"]
    copy.write_text(json.dumps(document))
    run_main("acls", "import", copy, "--to", tmp_path / "copied.yaml")
    narrowed = run(0, "acls", "--list", "--log-dir", log_dir, "--principal", "User:b")
    assert [entry["principal"] for entry in narrowed["acls"]] == ["User:b"]
    write_log(tmp_path / "odd", [added(1, rejected)])
    printed = run_main("acls", "--list", "--json", "--log-dir", tmp_path / "odd")
    assert json.loads(printed.out) == {"acls": []}
    assert printed.err.startswith("authorizerd: left out: ")


def test_flag_without_a_listing_is_rejected() -> None:
    printed = run_main("acls", "--add", "--json", "--bootstrap-server", "a:1", code=1)
    assert "The --json option is only available if --list is set" in printed.err


def test_check_log_prints_what_it_found_and_repaired(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)], [added(2)])
    document = run(0, "check-log", tmp_path)
    assert (document["result"], document["faults"], document["acls"]) == ("valid", [], 2)
    path = tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(0)
    data = path.read_bytes()
    path.write_bytes(data[:70] + bytes([data[70] ^ 1]) + data[71:])
    document = run(2, "check-log", tmp_path)
    assert document["result"] == "faulty"
    assert str(path) in document["faults"][0]
    assert document["acls"] is None
    document = run(2, "check-log", tmp_path, "--repair")
    assert document["result"] == "cannot be repaired"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(("line", "expected"), [
    ("FAIL  nobody may READ", "\x1b[31mFAIL\x1b[0m  nobody may READ"),
    ("warning: disk: slow.", "\x1b[33mwarning:\x1b[0m disk: slow."),
    ("+   ALLOW User:a", "\x1b[32m+\x1b[0m   ALLOW User:a"),
    ("found: ok", "found: ok"),
    ("", ""),
])  # fmt: skip
def test_mark_of_a_line_has_a_colour(line: str, expected: str) -> None:
    assert paint(line, _Terminal()) == expected
    assert paint(line, io.StringIO()) == line


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_environment_turns_colours_off(name: str, value: str, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert paint("FAIL  it", _Terminal()) == "FAIL  it"
