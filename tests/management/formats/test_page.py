"""The examples and the table of docs/acl-formats.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from authorizerd.acl.model import Acl
from authorizerd.management.formats.catalogue import FORMATS, detect_format
from authorizerd.management.formats.unread import NEXT_STEPS
from tests.support.acls import acl

PAGE: Final = (Path(__file__).parents[3] / "docs/acl-formats.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"^```(?:yaml|json)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES: Final = list(zip(BLOCKS[::2], BLOCKS[1::2], strict=True))

ROWS: Final[dict[str, tuple[Acl, ...]]] = {
    "ALLOW, any host, literal or prefixed name": (acl(), acl(pattern="PREFIXED")),
    "DENY, also with a prefix": (acl(deny=True), acl(deny=True, pattern="PREFIXED")),
    "for one host, also IPv6": (acl(host="10.0.0.7"), acl(host="0:0:0:0:0:0:0:1")),
    "for every topic (`*`)": (acl(topic="*"),),
    "of `User:CN=a`": (acl("User:CN=a"),),
    "of `User:CN=a,O=b`, `User:Bob` or `User:a_b`": (
        acl("User:CN=a,O=b"),
        acl("User:Bob"),
        acl("User:a_b"),
    ),
    "of `User:*` or `User:ANONYMOUS`": (acl("User:*"), acl("User:ANONYMOUS")),
    "of `Group:a`": (acl("Group:a"),),
    "on a delegation token": (acl(delegation_token="x"),),
    "on a user, or CREATE_TOKENS": (acl(user="User:b"), acl(operation="CREATE_TOKENS")),
    "TWO_PHASE_COMMIT": (acl(operation="TWO_PHASE_COMMIT", transactional_id="x"),),
    "a name with a line break": (acl(topic="a\nb"),),
    "a principal with `, host=`": (acl("User:a, host=b"),),
    "a name in which an accent is a character of its own": (acl(topic="e\u0301"),),
    "a code of a later Kafka version": (acl(operation=99), acl(pattern=99)),
}
"""For each row of the table: ACLs of this kind, which a format can either all say or not."""


def table() -> Iterator[tuple[str, str, str]]:
    """Yield the kind of ACL, the format and the cell of each field of the table."""
    lines = PAGE.partition("## What each format can say\n")[2].partition("\n## ")[0].split("\n")
    heading, _, *rows = (line.strip("| ").split(" | ") for line in lines if line.startswith("|"))
    for kind, *cells in rows:
        for names, cell in zip(heading[1:], cells, strict=True):
            yield from ((kind, name, cell) for name in names.split(", "))


def answer(name: str, one: Acl) -> str:
    return "no" if FORMATS[name].write([one]).losses else "yes"


@pytest.mark.parametrize(("kind", "name", "cell"), list(table()))
def test_table_says_what_each_format_can_say(kind: str, name: str, cell: str) -> None:
    assert {answer(name, one) for one in ROWS[kind]} == {cell}


def cells(section: str) -> list[list[str]]:
    """Return the cells of the rows of the table in a section, without its heading."""
    text = PAGE.partition(f"{section}\n")[2].partition("\n#")[0]
    rows = [line.strip("| ").split(" | ") for line in text.split("\n") if line.startswith("|")]
    return rows[2:]


def test_page_has_the_list_of_formats_and_of_texts_that_are_not_read() -> None:
    assert [row[:2] for row in cells("# Formats of ACLs")] == [
        [f"`{each.name}`", each.help] for each in FORMATS.values()
    ]
    assert cells("### Texts that are not read") == [[each.what, each.step] for each in NEXT_STEPS]


def test_table_has_all_rows_and_formats() -> None:
    assert {kind for kind, _, _ in table()} == ROWS.keys()
    assert {name for _, name, _ in table()} == FORMATS.keys() - {"zookeeper"}


@pytest.mark.parametrize(
    ("name", "text", "meaning"),
    [
        (name, *example)
        for name, example in zip(
            ("strimzi", "julie", "kafka-gitops", "terraform"), EXAMPLES, strict=True
        )
    ],
    ids=lambda value: value[:12],
)
def test_example_means_what_the_page_says(name: str, text: str, meaning: str) -> None:
    for suffix in (".json" if name == "terraform" else ".yaml", ""):
        assert detect_format(text, suffix).name == name
    found = FORMATS[name].read(text)
    assert found.losses == ()
    assert FORMATS["yaml"].write(found.acls).text == meaning
    assert set(FORMATS["yaml"].read(meaning).acls) == set(found.acls)


def test_plan_of_the_page_manages_what_it_deletes() -> None:
    scope = FORMATS["terraform"].read(EXAMPLES[-1][0]).scope
    assert scope is not None
    assert scope.acls == {
        acl("User:shop", "WRITE", topic="orders"),
        acl("User:shop", "READ", topic="prices"),
    }
