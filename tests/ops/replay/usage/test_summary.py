from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.model import CLUSTER_NAME, Acl, Operation, ResourceType
from authorizerd.acl.text.kafka_acls import entry_arguments, why_inexpressible
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acls.arguments import parse_arguments
from authorizerd.cli.acls.errors import KafkaAclsError, UsageError
from authorizerd.cli.acls.plan import Addition, Removal, make_plan
from authorizerd.replay.usage.summary import script
from tests.ops.replay.acl_sets import topic_read

SERVER = ["--bootstrap-server", "h:9092"]
NASTY = "it's `$(touch x)` \"\\ \n* ; é --force"

_texts = st.text(st.sampled_from("a*'\"$` -\n\t:é\\;"), max_size=5)
_acls = st.builds(
    Acl, resource_type=st.integers(0, 8), resource_name=st.just(CLUSTER_NAME) | _texts,
    pattern_type=st.integers(2, 5), principal=st.builds("{}:{}".format, _texts, _texts) | _texts,
    host=st.just("*") | _texts, operation=st.integers(0, 16), permission_type=st.integers(1, 4),
)  # fmt: skip


@given(_acls)
@example(Acl(ResourceType.TRANSACTIONAL_ID, " t ", 4, "User:a", "*", Operation.WRITE, 3))
@example(Acl(ResourceType.CLUSTER, CLUSTER_NAME, 3, "User:a", "h", Operation.ALTER, 2))
@example(topic_read("a"))
@example(topic_read(" a"))
@example(topic_read("a", principal="User:a\t"))
def test_acl_is_rejected_or_round_trips_through_kafka_acls(acl: Acl) -> None:
    if why_inexpressible(acl) is None:
        arguments = entry_arguments(acl)
        added = make_plan(parse_arguments([*SERVER, "--add", *arguments]))
        assert isinstance(added, Addition)
        assert [one for group in added.groups for one in group.acls()] == [acl]
        removed = make_plan(parse_arguments([*SERVER, "--remove", "--force", *arguments]))
        assert isinstance(removed, Removal)
        assert (removed.groups, removed.asks) == (added.groups, False)


@given(_acls)
def test_only_inexpressible_acls_are_rejected(acl: Acl) -> None:
    if why_inexpressible(acl) is None or not acl.resource_name or not acl.host:
        return
    try:
        plan = make_plan(parse_arguments([*SERVER, "--add", *entry_arguments(acl)]))
    except (KafkaAclsError, UsageError, ValueError, KeyError):
        return
    assert isinstance(plan, Addition)
    assert [one for group in plan.groups for one in group.acls()] != [acl]


def test_name_with_nul_is_rejected() -> None:
    reason = why_inexpressible(topic_read("a\0b"))
    assert reason == "a command line cannot contain the character NUL"


@pytest.fixture
def recorded_calls(tmp_path: Path) -> tuple[str, Path]:
    """A double of kafka-acls, and the file to which it writes its arguments."""
    calls, program = tmp_path / "calls", tmp_path / "program.py"
    program.write_text(
        "import json, sys\n"
        f"open({str(calls)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "sys.exit('fails' in sys.argv)\n"
    )
    return f"{sys.executable} {program}", calls


def _run(
    folder: Path, text: str, kafka_acls: str, arguments: list[str]
) -> subprocess.CompletedProcess[str]:
    (folder / "commands.sh").write_text(text)
    return subprocess.run(
        ["sh", folder / "commands.sh", *arguments], env={"KAFKA_ACLS": kafka_acls},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_script_adds_before_it_removes_and_quotes_names(
    recorded_calls: tuple[str, Path], tmp_path: Path
) -> None:
    kafka_acls, calls = recorded_calls
    wide, narrow = topic_read("*"), topic_read(f"x{NASTY}", principal=f"User:{NASTY}")
    text = script([f"source\nexit 7 {NASTY}"], [wide], [narrow])
    ran = _run(tmp_path, text, kafka_acls, SERVER)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [json.loads(line) for line in calls.read_text().splitlines()] == [
        [*SERVER, "--add", *entry_arguments(narrow)],
        [*SERVER, "--remove", "--force", *entry_arguments(wide)],
    ]
    assert "--resource-pattern-type literal" in text


def test_script_stops_at_a_failure(recorded_calls: tuple[str, Path], tmp_path: Path) -> None:
    kafka_acls, calls = recorded_calls
    text = script([], [topic_read("*")], [topic_read("fails"), topic_read("b")])
    assert _run(tmp_path, text, kafka_acls, SERVER).returncode == 1
    assert len(calls.read_text().splitlines()) == 1


def test_script_without_arguments_prints_its_usage(
    recorded_calls: tuple[str, Path], tmp_path: Path
) -> None:
    kafka_acls, calls = recorded_calls
    ran = _run(tmp_path, script([], [topic_read("a")], []), kafka_acls, [])
    assert ran.returncode == 2
    assert "--bootstrap-server HOST:PORT" in ran.stderr
    assert not calls.exists()
    assert script([], [], []).count("# none\n") == 2


def test_unprintable_characters_are_escaped() -> None:
    assert escape_unprintable("a\nb\u202e\ud800é") == "a\\nb\\u202e\\ud800é"


def test_flags_are_those_of_kafka_acls() -> None:
    acl = Acl(ResourceType.USER, "u", 4, "User:a", "10.0.0.1", Operation.DESCRIBE_TOKENS, 2)
    assert " ".join(entry_arguments(acl)) == (
        "--deny-principal User:a --deny-host 10.0.0.1 --operation DescribeTokens "
        "--user-principal u --resource-pattern-type prefixed"
    )
