"""A small log with topics, and the answers of the commands that ask about it."""

import json
from pathlib import Path
from typing import Any

from authorizerd.image.changes import TopicAdded
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.log_files import added, write_log
from tests.support.printed import Printed, run_main

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


def ask(words: str, *more: str | Path, code: int = 0) -> Printed:
    """Run a command with these words, and return what it printed.

    The settings are known: those of the words, or else Kafka's defaults.
    """
    command, *rest = words.split()
    return run_main(command, *KNOWN_SETTINGS, *rest, *more, code=code)


def answer(words: str, *more: str | Path, code: int = 0) -> list[str]:
    """Return the lines of an answer, without the lines about the source."""
    *lines, source, settings = ask(words, *more, code=code).out.splitlines()
    assert source.startswith(("at log offset ", "as listed by "))
    assert settings.startswith("with super.users=")
    return lines


def document(words: str, *more: str | Path, code: int = 0) -> Any:  # noqa: ANN401
    return json.loads(ask(f"{words} --json", *more, code=code).out)
