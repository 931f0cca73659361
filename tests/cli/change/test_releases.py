"""``authorizerd acls compare-releases``: what it reports and returns."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.acl.model import Acl
from authorizerd.cli.change import releases
from authorizerd.cli.main import main
from authorizerd.management.formats.listing import format_acls
from tests.support.acls import acl
from tests.support.fixture_types import Capture

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


def compare(held: list[Acl], words: str = "") -> int:
    Path("now.txt").write_text(format_acls(held))
    return main(["acls", "compare-releases", "--acls", "now.txt", "--super-users=", *words.split()])


def test_changed_acls_and_requests_are_reported(capsys: Capture) -> None:
    assert compare([ALICE, LOOPBACK, MALFORMED, USELESS], "--traffic audit.log") == 10
    assert capsys.readouterr().out.startswith(REPORT)


def test_the_way_back_is_the_opposite(capsys: Capture) -> None:
    assert compare([ALICE, LOOPBACK], "--from 4.4 --to 4.3 --json --traffic audit.log") == 10
    document = json.loads(capsys.readouterr().out)
    (changed,) = document["acls"]
    assert (document["from"], document["to"]) == ("4.4", "4.3")
    assert (changed["meaning"], changed["allowed_after"]) == ("falls asleep", True)
    assert [each["host"] for each in changed["questions"]] == ["127.0.0.0"]
    assert document["traffic"]["newly_allowed"]["events"] == 1
    assert document["traffic"]["newly_denied"]["events"] == 0


@pytest.mark.parametrize("held", [[ALICE], [ALICE, USELESS], [ALICE, MALFORMED]])
def test_no_other_answer_is_exit_code_0(held: list[Acl]) -> None:
    assert compare(held, "--traffic audit.log") == 0


def test_record_that_the_acls_contradict_proves_nothing(capsys: Capture) -> None:
    assert compare([], "--traffic audit.log") == 10
    expected = "this proves nothing: the ACLs decide 2 of 2 events (100.0%) otherwise than recorded"
    assert expected in capsys.readouterr().out


def test_same_release_is_refused(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        compare([ALICE], "--to 4.3")
    assert ended.value.code == 2
    assert "expected a release other than that of --from" in capsys.readouterr().err


def test_reports_are_bounded(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(releases, "ACLS_SHOWN_MAX", 1)
    monkeypatch.setattr(releases, "ACLS_LISTED_MAX", 1)
    held = [ALICE, LOOPBACK, MALFORMED]
    assert compare(held) == 10
    assert "and 1 more ACL with a slash in the host\n" in capsys.readouterr().out
    assert compare(held, "--json") == 10
    document = json.loads(capsys.readouterr().out)
    assert (len(document["acls"]), document["acls_left_out"]) == (1, 1)
