"""``acls apply`` on a real daemon: the command, its exit codes, races, restarts."""

import io
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

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
from tests.support.daemon_process import DaemonProcess, new_log, run, running
from tests.support.kafka_connection import KafkaConnection

BEFORE = some_acls(range(12))
AFTER = some_acls(range(6, 18))
OTHER = acl("User:other", topic="other")
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
        self.folder = folder
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

    def apply(
        self, *flags: str, checks: tuple[PlanCheck, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        path = self.folder / "plan.json"
        path.write_bytes(encode_plan(new_plan(BEFORE, AFTER, checks=checks)))
        return run("acls", "apply", path, "--bootstrap-server", self.address, *flags)

    def remove(self, *flags: str) -> int:
        return main(["acls", "remove", "--bootstrap-server", self.address, *flags])


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
    done = stage.apply()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("the server compares: it rejects a request if an ACL has changed")
    pattern = r"(?:2 DENY|4 ALLOW) ACLs (?:created|deleted), at offset (\d+)"
    offsets = [int(found[1]) for line in lines[1:-1] if (found := re.fullmatch(pattern, line))]
    assert [later - offsets[0] for later in offsets] == [0, 4, 8, 10]
    assert lines[-1] == "applied: 12 ACLs now, as planned"
    assert stage.acls == set(AFTER)
    again = stage.apply()
    said = "nothing to do: the ACLs are those of the plan (12 ACLs)\n"
    assert (again.returncode, again.stdout) == (0, said)


def test_dry_run_prints_the_requests(stage: Stage) -> None:
    done = stage.apply("--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        "to be sent: 2 DENY ACLs created", "to be sent: 4 ALLOW ACLs created",
        "to be sent: 4 ALLOW ACLs deleted", "to be sent: 2 DENY ACLs deleted",
        "dry run: 12 changes would be made, nothing was sent",
    ]  # fmt: skip
    assert stage.acls == set(BEFORE)


def test_moved_state_has_its_own_exit_code(stage: Stage) -> None:
    stage.set_acls([*BEFORE, OTHER])
    for flags in ([], ["--dry-run"]):
        done = stage.apply(*flags)
        assert done.returncode == 4
        assert done.stdout.count(str(OTHER)) == 1
        assert f"created since: {OTHER}" in done.stdout
        assert "Make the plan again" in done.stdout
    assert stage.acls == {*BEFORE, OTHER}


def test_breaking_plan_needs_a_flag(stage: Stage) -> None:
    done = stage.apply(checks=(BREAKING,))
    assert (done.returncode, done.stdout) == (3, "")
    assert "1 policy test would fail" in done.stderr
    assert "pass --accept-breaking" in done.stderr
    assert stage.acls == set(BEFORE)
    assert stage.apply("--accept-breaking", checks=(BREAKING,)).returncode == 0
    assert stage.acls == set(AFTER)


def test_json_has_every_request(stage: Stage) -> None:
    document = json.loads(stage.apply("--json").stdout)
    assert document["result"] == "applied"
    assert document["compares"] is True
    steps = [each["step"] for each in document["done"]]
    assert steps == ["create_deny", "create_allow", "delete_allow", "delete_deny"]
    stage.set_acls([*BEFORE, OTHER])
    moved = stage.apply("--json")
    assert moved.returncode == 4
    document = json.loads(moved.stdout)
    assert document["left"] == 12
    assert [each["principal"] for each in document["created_by_others"]] == ["User:other"]


def test_other_place_than_that_of_the_plan_is_named(stage: Stage) -> None:
    note = f"the plan was made for broker:9092, and is applied to {stage.address}"
    assert f"note: {note}" in stage.apply("--dry-run").stderr
    assert note in json.loads(stage.apply("--dry-run", "--json").stdout)["notes"]
    path = stage.folder / "made.json"
    (stage.folder / "desired.json").write_text('{"acls": []}')
    words = ("--bootstrap-server", stage.address)
    made = run("acls", "plan", stage.folder / "desired.json", *words, "--out", path)
    assert made.returncode == 10, made.stderr
    assert "note:" not in run("acls", "apply", path, "--dry-run", *words).stderr


def test_breaking_plan_cannot_be_edited_into_another(stage: Stage) -> None:
    path = stage.folder / "plan.json"
    assert stage.apply(checks=(BREAKING,)).returncode == 3
    path.write_text(path.read_text().replace('"breaks": true', '"breaks": false'))
    done = run("acls", "apply", path, "--bootstrap-server", stage.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "plan.json: sha256: it does not fit the content" in done.stderr
    assert stage.acls == set(BEFORE)


def test_edited_plan_is_rejected(stage: Stage) -> None:
    path = stage.folder / "plan.json"
    stage.apply("--dry-run")
    path.write_text(path.read_text().replace('"t17"', '"t99"'))
    done = run("acls", "apply", path, "--bootstrap-server", stage.address)
    assert done.returncode == 1
    assert "plan.json: steps: " in done.stderr
    assert stage.acls == set(BEFORE)


def test_server_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(new_plan(BEFORE, AFTER)))
    done = run("acls", "apply", path, "--bootstrap-server", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--bootstrap-server 127.0.0.1:1" in done.stderr


def test_plan_without_the_right_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(new_plan([], AFTER)))
    with running(
        tmp_path, new_log(tmp_path), super_users="User:a", allow_everyone_if_no_acl_found="false"
    ) as daemon:
        address = daemon.ready["listeners"]["PLAINTEXT"]
        done = run("acls", "apply", path, "--bootstrap-server", address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "may not list ACLs" in done.stderr


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
    words = ("acls", "apply", path, "--bootstrap-server", stage.address)
    refused = run(*words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "10013 changes: expected at most 10000" in refused.stderr
    done = run(*words, "--batches")
    assert done.returncode == 0, done.stdout
    assert [line.partition(",")[0] for line in done.stdout.splitlines()[1:4]] == [
        "10000 ALLOW ACLs created",
        "1 ALLOW ACL created",
        "8 ALLOW ACLs deleted",
    ]
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


async def test_no_race_on_the_daemon_is_applied_to_an_unseen_state(
    shared_daemon: DaemonProcess,
) -> None:
    """100 changes by someone else, each at a random moment of a plan."""
    async with open_server(shared_daemon.ready["listeners"]["PLAINTEXT"]) as server:
        tally = await race_often(server, 100, settle_seconds=0)
    assert (tally.races, tally.blind, tally.unreported) == (100, 0, 0)
    assert tally.stopped > 50


async def test_concurrent_changes_are_never_overtaken(shared_daemon: DaemonProcess) -> None:
    """Another client changes ACLs all the time; each request follows the state that it expects."""
    address = shared_daemon.ready["listeners"]["PLAINTEXT"]
    moved = applied = 0
    expected_codes = {ErrorCode.INVALID_UPDATE_VERSION}
    async with open_server(address) as server, open_server(address) as other:

        async def churn() -> None:
            chance = Random(1)
            while True:
                await other.send(AclRequest("create_allow", (OTHER,)), None)
                await other.send(AclRequest("delete_allow", (OTHER,)), None)
                await trio.sleep(chance.random() / 50)

        await set_acls(server, [])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(churn)
            with trio.fail_after(60):
                while min(moved, applied) < 20:
                    listed = await server.list_acls()
                    request = AclRequest("create_allow", tuple(BEFORE))
                    answer = await server.send(request, listed.offset)
                    assert isinstance(answer, Answered)
                    if answer.errors:
                        assert {each.code for each in answer.errors} == expected_codes
                        moved += 1
                        continue
                    assert listed.offset is not None
                    # Every record after the listing is its own: no other change came between.
                    assert answer.offset == listed.offset + len(BEFORE)
                    applied += 1
                    await server.send(AclRequest("delete_allow", tuple(BEFORE)), None)
            nursery.cancel_scope.cancel()


def test_offset_of_before_a_restart_is_accepted_or_rejected_but_never_wrong(
    tmp_path: Path,
) -> None:
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
    (["--principal", "User:nobody"], "", False, "no ACL is removed: none matches the flags"),
    (["--principal", MINE, "--group", "none"], "", False, "none matches the flags"),
])  # fmt: skip
def test_acls_of_a_principal_are_removed_in_one_command(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    flags: list[str], answer: str, is_removed: bool, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert stage.remove(*flags) == 0
    assert stage.acls == ({*BEFORE} - THEIRS if is_removed else {*BEFORE})
    printed = capsys.readouterr()
    assert said in printed.err
    assert (f"{MINE} " in printed.out) is (MINE in flags and "none" not in flags)


def test_removal_needs_flags_that_select_acls(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them, all ACLs would be removed."""
    with pytest.raises(SystemExit) as ended:
        stage.remove("--force")
    assert ended.value.code == 2
    assert "expected flags that select ACLs" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert stage.remove("--principal", MINE) == 1
    assert "the question was not answered" in capsys.readouterr().err
    assert stage.acls == {*BEFORE}
