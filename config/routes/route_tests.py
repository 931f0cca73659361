"""Tests of a route table: the questions that a request must ask.

POST /topics/a%20b -> WRITE TOPIC "a b"
POST /topics/a%2Fb -> DENY
"""

from __future__ import annotations

from typing import NamedTuple

from authorizerd.acl.model import OPERATION_NAMES, RESOURCE_TYPE_NAMES
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.routes.errors import RefusedRequestError
from authorizerd.config.routes.questions import parse_questions
from authorizerd.config.routes.table import DENY, LINE, Line, RouteTable

_EXPECTED = (
    'expected METHOD TARGET -> QUESTION, such as POST /topics/a%20b -> WRITE TOPIC "a b", or'
    f" METHOD TARGET -> {DENY}"
)


class Asked(NamedTuple):
    """The table's answer to a request: questions, or else the reason why it is denied."""

    questions: tuple[str, ...]
    denial: str = ""

    def __str__(self) -> str:
        return ", ".join(self.questions) or DENY


class RouteTest(NamedTuple):
    """A test. Without questions, the request must be denied."""

    line: Line
    method: str
    target: str
    expected: Asked


def parse_test(line: Line) -> RouteTest:
    """Return the test of a line.

    Raises:
        InvalidValueError: it is not a test.
    """
    found = LINE.fullmatch(line.text.strip())
    if found is None:
        raise InvalidValueError(f"'{line.text}': {_EXPECTED}")
    method, target, text = found.groups()
    if text == DENY:
        return RouteTest(line, method, target, Asked(()))
    questions = tuple(
        write_question(each.operation, each.resource_type, each.fill(()))
        for each in parse_questions(text, ())
    )
    return RouteTest(line, method, target, Asked(questions))


def ask_table(table: RouteTable, method: str, target: str) -> tuple[Asked, Line | None]:
    """Return what a request asks, and the line of its route, if it has one."""
    try:
        route, values = table.find(method, target)
    except RefusedRequestError as error:
        return Asked((), str(error)), None
    questions = tuple(
        write_question(each.operation, each.resource_type, each.fill(values))
        for each in route.questions
    )
    return Asked(questions, route.denial), route.line


def write_question(operation: int, resource_type: int, name: str) -> str:
    """Return a question in the form in which ``parse_questions`` reads it."""
    is_plain = not any(each in ' ,"\\{}' or each.isspace() for each in name)
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    shown = name if is_plain else f'"{escaped}"'
    return f"{OPERATION_NAMES[operation]} {RESOURCE_TYPE_NAMES[resource_type]} {shown}"
