"""A small log with topics, and the answers of the commands that ask about it."""

import json
from pathlib import Path
from typing import Any

from authorizerd.cli.main import main
from authorizerd.image.changes import TopicAdded
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.fixture_types import Capture
from tests.support.log_files import added, write_log

ACLS = (
    acl("User:alice", "READ", topic="orders"),
    acl("User:bob", "ALL", topic="orders", pattern="PREFIXED"),
    acl("User:*", "ALL", topic="orders-secret", deny=True),
    acl("User:*", "READ", topic="status"),
    acl("User:robot", "WRITE", topic="status", host="10.0.0.7"),
    acl("User:eve", "READ", topic="status", deny=True, host="10.0.0.9"),
    acl("User:mallory", "READ", topic="status", deny=True),
    acl("User:alice", "READ", group="billing"),
    acl("User:ops", "ALTER", cluster=True),
    acl("User:etl", "READ", topic="*"),
    acl("User:etl", "READ", topic="orders-", pattern="PREFIXED", deny=True, host="10.0.0.9"),
)
TOPICS = (*(f"orders-{number:02}" for number in range(12)), "orders", "orders-secret", "status")


def write_small_log(folder: Path) -> Path:
    write_log(
        folder,
        [added(number, each) for number, each in enumerate(ACLS, 1)],
        [TopicAdded(name, number.to_bytes(16, "big")) for number, name in enumerate(TOPICS, 1)],
    )
    return folder


def ask(words: str, *more: str | Path) -> int:
    """Run a command with these words and return its exit code.

    The settings are known: those of the words, or else Kafka's defaults.
    """
    command, *rest = words.split()
    return main([command, *KNOWN_SETTINGS, *rest, *map(str, more)])


def answer(capsys: Capture, words: str, *more: str | Path) -> tuple[int, list[str]]:
    """Return the exit code and the lines of an answer, without the lines about the source."""
    code = ask(words, *more)
    *lines, source, settings = capsys.readouterr().out.splitlines()
    assert source.startswith(("at log offset ", "as listed by "))
    assert settings.startswith("with super.users=")
    return code, lines


def document(capsys: Capture, words: str, *more: str | Path) -> Any:  # noqa: ANN401
    ask(f"{words} --json", *more)
    return json.loads(capsys.readouterr().out)
