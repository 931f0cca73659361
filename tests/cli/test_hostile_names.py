"""Names in a log that a command prints cannot control the terminal or forge a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.image.changes import TopicAdded
from tests.support.acls import acl
from tests.support.daemon_process import write_config
from tests.support.log_files import acl_id, added, flipped, removed, write_log

HOSTILE = "a\n\x1b[2J\r\x07\x7f\x85\u2028\u202e\x9bEND"
"""Line breaks, what terminals obey in 7 and in 8 bits, and a mark that reorders text."""

USER = f"User:{HOSTILE}"
ACLS = (
    acl(USER, topic=HOSTILE),
    acl(USER, topic=HOSTILE, pattern="PREFIXED", host=HOSTILE),
    acl("User:*", topic=HOSTILE, deny=True, host=HOSTILE),
    acl(f"User:b{HOSTILE}", "ALL", cluster=True),
)
QUESTION = ("--principal", USER, "--operation", "READ", "--topic", HOSTILE)
COMMANDS = {
    "check-log": ("check-log", "DIR"),
    "explain": ("explain", *QUESTION, "--log-dir", "DIR"),
    "who-can": ("who-can", "READ", "--topic", HOSTILE, "--log-dir", "DIR"),
    "what-can": ("what-can", USER, "--log-dir", "DIR"),
    "can": ("can", USER, "--topic", HOSTILE, "--log-dir", "DIR"),
    "history": ("history", *QUESTION[:2], "--topic", HOSTILE, "--log-dir", "DIR"),
    "test": ("test", "TESTS", "--log-dir", "DIR"),
    "plan": ("acls", "plan", "DESIRED", "--log-dir", "DIR", "--out", "PLAN"),
    "shell": ("shell", "--log-dir", "DIR", "tree", "/"),
    "doctor": ("doctor", "--config", "CONFIG"),
}


@pytest.fixture
def words(tmp_path: Path) -> dict[str, str]:
    """Return the files that stand for words in capital letters."""
    log_dir = tmp_path / "log"
    topic = TopicAdded(HOSTILE, acl_id(9))
    changes = [added(number, each) for number, each in enumerate(ACLS, 1)]
    write_log(log_dir, changes, [topic], [removed(4)])
    tests = {"tests": [{"name": HOSTILE, "principal": USER, "may_not": "READ", "topic": HOSTILE}]}
    (tmp_path / "tests.yaml").write_text(json.dumps(tests))
    (tmp_path / "desired.json").write_text(json.dumps({"acls": []}))
    return {
        "DIR": str(log_dir),
        "TESTS": str(tmp_path / "tests.yaml"),
        "DESIRED": str(tmp_path / "desired.json"),
        "PLAN": str(tmp_path / "plan.json"),
        "CONFIG": str(write_config(tmp_path, log_dir)),
    }


def check_output(
    capsys: pytest.CaptureFixture[str], arguments: list[str], *, names: bool = True
) -> str:
    """Run a command, and check each line that it prints; return its standard output."""
    main(arguments)
    out, errors = capsys.readouterr()
    assert ("END" in out + errors) or not names
    for line in (out + errors).split("\n"):
        assert line.isprintable(), line
        assert not line.startswith(("\x1b", "END"))
    return out


@pytest.mark.parametrize("command", COMMANDS)
def test_names_of_a_log_are_escaped(
    words: dict[str, str], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    arguments = [words.get(each, each) for each in COMMANDS[command]]
    check_output(capsys, arguments, names=command not in ("check-log", "doctor"))


@pytest.mark.parametrize("command", ["who-can", "what-can", "can", "explain", "history"])
def test_names_in_json_are_escaped_and_read_back(
    words: dict[str, str], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    arguments = [words.get(each, each) for each in COMMANDS[command]]
    document = json.loads(check_output(capsys, [*arguments, "--json"]))
    assert any(HOSTILE in text for text in texts_of(document))


def texts_of(document: object) -> Iterator[str]:
    """Yield all texts of a JSON document."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict | list):
        for each in document.values() if isinstance(document, dict) else document:
            yield from texts_of(each)


def test_names_that_a_repair_reports_are_escaped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The batch before a removal is damaged, so the ACL that was removed would come back."""
    write_log(tmp_path, [added(1, ACLS[0])], [added(2, ACLS[1])], [removed(1)])
    (segment,) = tmp_path.glob("*/*.log")
    data = segment.read_bytes()
    segment.write_bytes(flipped(data, data.rindex(USER.encode())))
    assert "would come back" in check_output(capsys, ["check-log", str(tmp_path), "--repair"])


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "shell"])
def test_names_in_the_fault_of_a_log_are_escaped(
    words: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    """The second change adds the ACL of the first one again."""
    bad = tmp_path / "bad"
    write_log(bad, [added(1, ACLS[0])], [added(2, ACLS[0])])
    files = words | {"DIR": str(bad), "CONFIG": str(write_config(tmp_path, bad))}
    check_output(capsys, [files.get(each, each) for each in COMMANDS[command]])
