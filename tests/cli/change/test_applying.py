"""``acls apply`` on a real daemon: the command, its exit codes, races, restarts."""

import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from authorizerd.acl.model import Acl
from authorizerd.acl.steps import finish
from authorizerd.cli.change import applying
from authorizerd.cli.change.apply_server import Answered
from authorizerd.cli.change.execution import Done, Ending, Execution
from authorizerd.cli.main import main
from authorizerd.management.plan.changes import AclRequest
from authorizerd.management.plan.document import PlanCheck, encode_plan
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.cli.change.acl_servers import (
    MemoryServer,
    new_plan,
    open_server,
    race_often,
    set_acls,
    some_acls,
)
from tests.support.acl_messages import decode_created, encode_creations
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, new_log, running
from tests.support.kafka_connection import KafkaConnection
from tests.support.printed import Printed, run_main
from tests.support.sizes import size

BEFORE = some_acls(range(12))
AFTER = some_acls(range(6, 18))
OTHER = acl("User:other", topic="other")
RACES = size(30, 100)
BREAKING = PlanCheck(name="tests", breaks=True, summary="1 policy test would fail", counts={})


async def list_offset(address: str) -> int:
    async with open_server(address) as server:
        listed = await server.list_acls()
        assert listed.offset is not None
        return listed.offset


class Stage:
    """A daemon with the ACLs of ``BEFORE``, and a plan that leads to ``AFTER``."""

    def __init__(self, daemon: DaemonProcess, folder: Path) -> None:
        self.address: str = daemon.ready["listeners"]["PLAINTEXT"]
        self.plan = folder / "plan.json"
        self.set_acls(BEFORE)

    def set_acls(self, acls: Sequence[Acl]) -> None:
        async def change() -> None:
            async with open_server(self.address) as server:
                await set_acls(server, acls)

        trio.run(change)

    @property
    def acls(self) -> set[Acl]:
        async def read() -> set[Acl]:
            async with open_server(self.address) as server:
                return set((await server.list_acls()).acls.values())

        return trio.run(read)

    def run(self, command: str, *words: str | Path, code: int = 0) -> Printed:
        return run_main("acls", command, "--bootstrap-server", self.address, *words, code=code)

    def apply(self, *flags: str, code: int = 0, checks: tuple[PlanCheck, ...] = ()) -> Printed:
        self.plan.write_bytes(encode_plan(new_plan(BEFORE, AFTER, checks=checks)))
        return self.run("apply", self.plan, *flags, code=code)


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Run one daemon for several tests, which make the ACLs that they need."""
    folder = tmp_path_factory.mktemp("apply")
    with running(folder, new_log(folder), super_users="User:ANONYMOUS") as daemon:
        yield daemon


@pytest.fixture
def stage(shared_daemon: DaemonProcess, tmp_path: Path) -> Stage:
    return Stage(shared_daemon, tmp_path)


def test_plan_is_applied_once(stage: Stage) -> None:
    lines = stage.apply().out.splitlines()
    assert lines[0].startswith("the server compares: it rejects a request if an ACL has changed")
    pattern = r"(?:2 DENY|4 ALLOW) ACLs (?:created|deleted), at offset (\d+)"
    offsets = [int(found[1]) for line in lines[1:-1] if (found := re.fullmatch(pattern, line))]
    assert [later - offsets[0] for later in offsets] == [0, 4, 8, 10]
    assert lines[-1] == "applied: 12 ACLs now, as planned"
    assert stage.acls == set(AFTER)
    assert stage.apply().out == "nothing to do: the ACLs are those of the plan (12 ACLs)\n"


def test_dry_run_prints_the_requests(stage: Stage) -> None:
    assert stage.apply("--dry-run").out.splitlines()[1:] == [
        "to be sent: 2 DENY ACLs created", "to be sent: 4 ALLOW ACLs created",
        "to be sent: 4 ALLOW ACLs deleted", "to be sent: 2 DENY ACLs deleted",
        "dry run: 12 changes would be made, nothing was sent",
    ]  # fmt: skip
    assert stage.acls == set(BEFORE)


def test_moved_state_has_its_own_exit_code(stage: Stage) -> None:
    stage.set_acls([*BEFORE, OTHER])
    for flags in ([], ["--dry-run"]):
        out = stage.apply(*flags, code=4).out
        assert out.count(str(OTHER)) == 1
        assert f"created since: {OTHER}" in out
        assert "Make the plan again" in out
    assert stage.acls == {*BEFORE, OTHER}


def test_breaking_plan_needs_a_flag(stage: Stage) -> None:
    out, error = stage.apply(checks=(BREAKING,), code=3)
    assert out == ""
    assert "1 policy test would fail" in error
    assert "pass --accept-breaking" in error
    assert stage.acls == set(BEFORE)
    stage.apply("--accept-breaking", checks=(BREAKING,))
    assert stage.acls == set(AFTER)


def test_json_has_every_request(stage: Stage) -> None:
    document = json.loads(stage.apply("--json").out)
    assert (document["result"], document["compares"]) == ("applied", True)
    steps = [each["step"] for each in document["done"]]
    assert steps == ["create_deny", "create_allow", "delete_allow", "delete_deny"]
    stage.set_acls([*BEFORE, OTHER])
    document = json.loads(stage.apply("--json", code=4).out)
    assert document["left"] == 12
    assert [each["principal"] for each in document["created_by_others"]] == ["User:other"]


def test_other_place_than_that_of_the_plan_is_named(stage: Stage, tmp_path: Path) -> None:
    note = f"the plan was made for broker:9092, and is applied to {stage.address}"
    assert f"note: {note}" in stage.apply("--dry-run").err
    assert note in json.loads(stage.apply("--dry-run", "--json").out)["notes"]
    desired, made = tmp_path / "desired.json", tmp_path / "made.json"
    desired.write_text('{"acls": []}')
    stage.run("plan", desired, "--out", made, code=10)
    assert "note:" not in stage.run("apply", made, "--dry-run").err


@pytest.mark.parametrize(("checks", "old", "new", "fault"), [
    ((BREAKING,), '"breaks": true', '"breaks": false', "sha256: it does not fit the content"),
    ((), '"t17"', '"t99"', "steps: "),
], ids=["check", "step"])  # fmt: skip
def test_edited_plan_is_rejected(
    stage: Stage, checks: tuple[PlanCheck, ...], old: str, new: str, fault: str
) -> None:
    stage.plan.write_bytes(encode_plan(new_plan(BEFORE, AFTER, checks=checks)))
    stage.plan.write_text(stage.plan.read_text().replace(old, new))
    out, error = stage.run("apply", stage.plan, code=1)
    assert (out, f"plan.json: {fault}" in error) == ("", True)
    assert stage.acls == set(BEFORE)


def test_server_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(new_plan(BEFORE, AFTER)))
    out, error = run_main("acls", "apply", path, "--bootstrap-server", "127.0.0.1:1", code=1)
    assert (out, "--bootstrap-server 127.0.0.1:1" in error) == ("", True)


def test_plan_without_the_right_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(new_plan([], AFTER)))
    with running(
        tmp_path, new_log(tmp_path), super_users="User:a", allow_everyone_if_no_acl_found="false"
    ) as daemon:
        address = daemon.ready["listeners"]["PLAINTEXT"]
        out, error = run_main("acls", "apply", path, "--bootstrap-server", address, code=1)
    assert (out, "may not list ACLs" in error) == ("", True)


def test_interrupted_command_says_what_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second request has been sent when the user presses Ctrl-C."""
    server = MemoryServer.of(BEFORE, compares=True)

    def interrupt(apply: object) -> Answered:
        raise KeyboardInterrupt

    server.faults = [lambda apply: apply(), interrupt]
    monkeypatch.setattr(applying, "KafkaAclServer", lambda reader: server)
    monkeypatch.setattr(applying, "run_on_brokers", lambda _, __, use: trio.run(use, None))
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(new_plan(BEFORE, AFTER)))
    with pytest.raises(KeyboardInterrupt):
        main(["acls", "apply", str(path), "--bootstrap-server", "host:1"])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "2 DENY ACLs created, at offset 12",
        "interrupted: 2 of 12 changes made, 10 left",
        "not known: whether the last request was applied (4 ALLOW ACLs created)",
        "Run the same command again: it continues from the state that it finds.",
    ]


def test_large_plan_needs_a_flag(stage: Stage, tmp_path: Path) -> None:
    """The flag divides it into requests, each of which expects the offset of the one before."""
    path = tmp_path / "large.json"
    after = [acl("User:a", topic=f"large{number}") for number in range(10_001)]
    path.write_bytes(encode_plan(new_plan(BEFORE, after)))
    out, error = stage.run("apply", path, code=1)
    assert (out, "10013 changes: expected at most 10000" in error) == ("", True)
    lines = stage.run("apply", path, "--batches").out.splitlines()
    assert [line.partition(",")[0] for line in lines[1:4]] == [
        "10000 ALLOW ACLs created", "1 ALLOW ACL created", "8 ALLOW ACLs deleted",
    ]  # fmt: skip
    assert stage.acls == set(after)


def test_pipelined_requests_do_not_slip_past_each_other(stage: Stage) -> None:
    """Both are in the daemon before it answers, and expect the same offset."""
    offset = trio.run(list_offset, stage.address)
    connection = KafkaConnection(stage.address)
    for name in ("first", "second"):
        created = encode_creations(3, [acl("User:a", topic=name)], offset)
        connection.send(ApiKey.CREATE_ACLS, 3, bytes(finish(created)))
    answers = [finish(decode_created(3, connection.receive(), 1)) for _ in range(2)]
    connection.close()
    ([first], written), ([second], nothing) = answers
    assert (first, written, nothing) == (None, offset + 1, None)
    assert second is not None
    assert second.code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"after offset {offset}, but the last one is at offset {offset + 1}" in str(second)


async def test_no_race_is_applied_to_an_unseen_state(
    shared_daemon: DaemonProcess,
) -> None:
    """Changes by someone else, each at a random moment of a plan."""
    async with open_server(shared_daemon.ready["listeners"]["PLAINTEXT"]) as server:
        tally = await race_often(server, RACES, settle_seconds=0)
    assert (tally["races"], tally["blind"], tally["unreported"]) == (RACES, 0, 0)
    assert tally["stopped"] > RACES // 2


def test_offset_of_before_a_restart_is_accepted_or_rejected_but_never_wrong(tmp_path: Path) -> None:
    """The log has no checkpoint, so the daemon finds the last change exactly."""
    log_dir = new_log(tmp_path)

    async def try_offset(address: str, offset: int) -> Answered:
        async with open_server(address) as server:
            answer = await server.send(AclRequest("create_allow", (OTHER,)), offset)
            assert isinstance(answer, Answered)
            return answer

    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        address = daemon.ready["listeners"]["PLAINTEXT"]
        first = trio.run(list_offset, address)
        Stage(daemon, tmp_path)
        second = trio.run(list_offset, address)
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        address = daemon.ready["listeners"]["PLAINTEXT"]
        for offset in (first, second + 1000):
            rejected = trio.run(try_offset, address, offset)
            assert [each.code for each in rejected.errors] == [ErrorCode.INVALID_UPDATE_VERSION]
        assert trio.run(try_offset, address, second).errors == ()


async def test_execution_survives_a_restart_of_the_daemon(tmp_path: Path) -> None:
    """The connection breaks between two requests; the plan goes on, and is applied once."""
    log_dir = new_log(tmp_path)
    plan = new_plan(BEFORE, AFTER)
    with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
        port = daemon.ready["listeners"]["PLAINTEXT"].rpartition(":")[2]
        await trio.to_thread.run_sync(Stage, daemon, tmp_path)
    listeners = f"PLAINTEXT://127.0.0.1:{port}"
    made: list[Done] = []
    with ExitStack() as daemons:

        def start() -> DaemonProcess:
            return daemons.enter_context(
                running(tmp_path, log_dir, super_users="User:ANONYMOUS", listeners=listeners)
            )

        def restart(done: Done) -> None:
            made.append(done)
            if len(made) == 1:
                daemons.close()
                start()

        async with open_server(start().ready["listeners"]["PLAINTEXT"]) as server:
            execution = Execution(plan, server, report=restart)
            await execution.run()
            assert execution.progress.ending is Ending.APPLIED
            assert (await server.list_acls()).digest == plan.leads_to.digest


MINE = BEFORE[3].principal
THEIRS = {each for each in BEFORE if each.principal == MINE}


@pytest.mark.parametrize(("flags", "answer", "is_removed", "said"), [
    (["--principal", MINE], "y\n", True, f"remove {len(THEIRS)} ACL"),
    (["--principal", MINE], "n\n", False, "authorizerd: nothing was changed\n"),
    (["--principal", MINE, "--force"], "", True, ""),
    (["--principal", MINE, "--dry-run"], "", False, ""),
    (["--principal", "User:nobody"], "", False, "no ACLs were removed: none matches the flags"),
    (["--principal", MINE, "--group", "none"], "", False, "none matches the flags"),
])  # fmt: skip
def test_acls_of_a_principal_are_removed_in_one_command(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, flags: list[str], answer: str, is_removed: bool,
    said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    out, error = stage.run("remove", *flags)
    assert stage.acls == ({*BEFORE} - THEIRS if is_removed else {*BEFORE})
    assert said in error
    assert (f"{MINE} " in out) is (MINE in flags and "none" not in flags)


def test_removal_needs_flags_that_select_acls(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them, all ACLs would be removed."""
    assert "expected flags that select ACLs" in stage.run("remove", "--force", code=2).err
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    printed = stage.run("remove", "--principal", MINE, code=1)
    assert "the question was not answered" in printed.err
    assert stage.acls == {*BEFORE}
