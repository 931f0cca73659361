"""``authorizerd acls compare-releases``: what it reports and returns."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.acl.model import Acl
from authorizerd.cli.change import releases
from authorizerd.management.formats.listing import format_acls
from tests.support.acls import acl
from tests.support.printed import Printed, run_main

ALICE = acl("User:alice", "READ", topic="orders")
LOOPBACK = acl("User:alice", "READ", topic="orders", host="127.0.0.0/8", deny=True)
MALFORMED = replace(LOOPBACK, host="127.0.0.0/33")
USELESS = acl("User:alice", "READ", topic="orders", host="10.0.0.0/8")
LINE = (
    "[2026-11-21 16:26:01,500] DEBUG Principal = User:alice is Allowed operation = READ from host ="
    " {host} on resource = Topic:LITERAL:orders for request = Fetch with resourceRefCount = 1"
    " (kafka.authorizer.logger)\n"
)
REPORT = """\
from Kafka 4.3 to 4.4: 2 ACLs with another meaning, 1 of them with another answer
wakes up: DENY User:alice READ from 127.0.0.0/8 on topic literal `orders`
  allowed -> denied: User:alice READ topic `orders` from 127.0.0.0
wakes up: ALLOW User:alice READ from 10.0.0.0/8 on topic literal `orders`
  no answer changes, because other ACLs decide
never matches, in both releases: DENY User:alice READ from 127.0.0.0/33 on topic literal `orders`
2 events of 2 requests, recorded from 2026-11-21T16:26:01.500Z to 2026-11-21T16:26:01.500Z in 2 \
lines; all judged
the other release newly denies 1 event of 1 request
newly denied, most frequent first:
  User:alice READ topic `orders` from 127.0.0.1: 1 event, last at 2026-11-21T16:26:01.500Z
recorded traffic: 1 event of 1 request newly denied, nothing newly allowed
as listed by now.txt, with 4 ACLs
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit.log").write_text(
        LINE.format(host="127.0.0.1") + LINE.format(host="10.0.0.1")
    )
    return tmp_path


def compare(held: list[Acl], words: str = "", *, code: int = 0) -> Printed:
    Path("now.txt").write_text(format_acls(held))
    settings = ("--acls", "now.txt", "--super-users=")
    return run_main("acls", "compare-releases", *settings, *words.split(), code=code)


def test_changed_acls_and_requests_are_reported() -> None:
    printed = compare([ALICE, LOOPBACK, MALFORMED, USELESS], "--traffic audit.log", code=10)
    assert printed.out.startswith(REPORT)


def test_the_way_back_is_the_opposite() -> None:
    document = json.loads(
        compare([ALICE, LOOPBACK], "--from 4.4 --to 4.3 --json --traffic audit.log", code=10).out
    )
    (changed,) = document["acls"]
    assert (document["from"], document["to"]) == ("4.4", "4.3")
    assert (changed["meaning"], changed["allowed_after"]) == ("falls asleep", True)
    assert [each["host"] for each in changed["questions"]] == ["127.0.0.0"]
    assert document["traffic"]["newly_allowed"]["events"] == 1
    assert document["traffic"]["newly_denied"]["events"] == 0


@pytest.mark.parametrize("held", [[ALICE], [ALICE, USELESS], [ALICE, MALFORMED]])
def test_no_other_answer_is_exit_code_0(held: list[Acl]) -> None:
    compare(held, "--traffic audit.log")


def test_record_that_the_acls_contradict_proves_nothing() -> None:
    printed = compare([], "--traffic audit.log", code=10)
    expected = "this proves nothing: the ACLs decide 2 of 2 events (100.0%) differently"
    assert expected in printed.out


def test_same_release_is_refused() -> None:
    printed = compare([ALICE], "--to 4.3", code=2)
    assert "expected a release other than that of --from" in printed.err


def test_reports_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "ACLS_SHOWN_MAX", 1)
    monkeypatch.setattr(releases, "ACLS_LISTED_MAX", 1)
    held = [ALICE, LOOPBACK, MALFORMED]
    assert "and 1 more ACL with a slash in the host\n" in compare(held, code=10).out
    document = json.loads(compare(held, "--json", code=10).out)
    assert (len(document["acls"]), document["acls_left_out"]) == (1, 1)
