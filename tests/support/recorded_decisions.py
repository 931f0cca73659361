"""Decisions in the audit log of a real broker, and the AuthZEN question of each."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

LINE = re.compile(
    r"\[(?P<time>[^]]+)\] \w+ Principal = (?P<principal>.+) is (?P<result>Allowed|Denied)"
    r" operation = (?P<operation>\w+) from host = (?P<host>\S+)"
    r" on resource = (?P<type>\w+):LITERAL:(?P<name>.*)"
    r" for request = \w+ with resourceRefCount = \d+ based on rule (?P<rule>.+)"
    r" \(kafka\.authorizer\.logger\)"
)


@dataclass(frozen=True)
class Recorded:
    """A recorded decision."""

    time_ms: int
    evaluation: dict[str, Any]
    decision: bool
    rule: str


def recorded_of(line: str) -> Recorded | None:
    """Return the decision in a line of the log, or None if it is a super user's."""
    match = LINE.fullmatch(line)
    assert match is not None, line
    principal_type, _, name = match["principal"].partition(":")
    if match["principal"] == "User:admin":
        return None
    assert principal_type == "User"
    time = datetime.strptime(match["time"], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return Recorded(
        time_ms=round(time.timestamp() * 1000),
        evaluation={
            "subject": {"type": "user", "id": name},
            "action": {"name": match["operation"]},
            "resource": {
                "type": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", match["type"]),
                "id": match["name"],
            },
            "context": {"host": match["host"]},
        },
        decision=match["result"] == "Allowed",
        rule=match["rule"],
    )
