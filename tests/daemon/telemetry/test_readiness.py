"""Whether the daemon is ready: /readyz of a follower, and the ready file."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
import trio
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import DEFAULT_DENY
from authorizerd.acl.model import AclAdded, ChangeBatch, Operation, Question, ResourceType
from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.releases import ANY_RELEASE
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.actors.auditor import NOT_WRITTEN, Auditor
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.record_applier import CaughtUp, Message, RecordApplier, Suspend
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.opa import HEALTH_PATH, OpaHandler
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.sources.source import Source
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.daemon.telemetry import ready_file
from authorizerd.daemon.telemetry.admin import AdminHandler
from authorizerd.daemon.telemetry.readiness import SHOWN_MAX, Readiness
from authorizerd.daemon.telemetry.ready_file import ReadyFile, write_ready_file
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.protocol.http.messages import Request
from tests.support.acls import acl
from tests.support.answers import answer_of
from tests.support.audit import RecordingAuditLog
from tests.support.authorizers import Plug

READYZ = Request(method="GET", path="/readyz", query="", headers={}, body=b"")


class Followed(Source):
    high_watermark = 5
    metadata_version = -1

    status = SourceStatus(SourceKind.QUORUM)

    async def run(self, applier: trio.MemorySendChannel[Message]) -> None: ...


def decider_of(applier: RecordApplier, auditor: Auditor | None = None) -> StandardAuthorizer:
    return StandardAuthorizer(
        applier.snapshot, auditor=auditor, why_no_snapshot=lambda: applier.not_ready_reason
    )


async def ask(readiness: Readiness, *, is_public: bool = False) -> tuple[int, str]:
    handler = AdminHandler(CollectorRegistry(), readiness, is_public=is_public)
    answer = await answer_of(handler(replace(READYZ)))
    return answer.status, bytes(answer.body).decode()


@pytest.mark.parametrize("is_public", [False, True])
async def test_last_error_is_shown_until_ready(nursery: trio.Nursery, is_public: bool) -> None:
    """Everybody reaches the metrics port, and an error may name the daemon's user."""
    feed, inbox = trio.open_memory_channel[Message](1)
    applier, source, gate = RecordApplier(inbox), Followed(), ListenerGate({})
    status = source.status = SourceStatus(SourceKind.QUORUM)
    nursery.start_soon(applier.run)
    nursery.start_soon(gate.run)
    readiness = Readiness(applier, gate, source, decider_of(applier), lambda: True)
    waiting = "waiting for the cluster: no contact so far"
    assert await ask(readiness, is_public=is_public) == (503, f"{waiting}\n")
    status.last_error = "host:1: User:me lacks CLUSTER_ACTION\n" + "x" * SHOWN_MAX
    code, text = await ask(readiness, is_public=is_public)
    if is_public:
        assert (code, text) == (503, f"{waiting}\n")
    else:
        said = f"{waiting}; the last error: host:1: User:me lacks CLUSTER_ACTION\\nxxx"
        assert (code, text[: len(said)]) == (503, said)
        assert len(text) < SHOWN_MAX + len(said)
    await feed.send(ChangeBatch(3, (AclAdded(bytes(16), acl()),)))
    await feed.send(CaughtUp(3))
    await applier.snapshot.wait_until(lambda newest: newest is not None)
    code, text = await ask(readiness, is_public=is_public)
    assert (code, text.partition(",")[0]) == (200, "ready: 1 ACL at log offset 3")
    assert "the last error" not in text


@pytest.mark.parametrize("is_public", [False, True])
async def test_fault_is_one_line_and_not_public(nursery: trio.Nursery, is_public: bool) -> None:
    """A fault may name ACLs, and a line feed in it would be a message to systemd."""
    _, inbox = trio.open_memory_channel[Message](1)
    source = Followed()
    source.status = SourceStatus(SourceKind.QUORUM)
    source.status.fail("does not fit: principal=User:a\nMAINPID=1" + "x" * SHOWN_MAX, 7)
    applier = RecordApplier(inbox)
    authorizer = decider_of(applier)
    readiness = Readiness(applier, ListenerGate({}), source, authorizer, lambda: True)
    stopped = "decisions have stopped at log offset 7: "
    code, text = await ask(readiness, is_public=is_public)
    if is_public:
        assert (code, text) == (503, f"{stopped}the log says why\n")
    else:
        said = f"{stopped}does not fit: principal=User:a\\nMAINPID=1xxx"
        assert (code, text[: len(said)]) == (503, said)
        assert len(text) < SHOWN_MAX + len(said)
        assert readiness.text == text.removesuffix("\n")


async def test_readiness_says_by_which_releases_and_why(nursery: trio.Nursery) -> None:
    """Without an upgrade of the daemon, a newer release stops decisions if that is set."""
    newer = ReleaseInForce(ANY_RELEASE, "broker 1 is newer", "broker 1 is newer")
    for stops in (False, True):
        feed, inbox = trio.open_memory_channel[Message](1)
        applier = RecordApplier(inbox, judge=lambda _: newer, stops_if_newer=stops)
        gate = ListenerGate({})
        nursery.start_soon(applier.run)
        nursery.start_soon(gate.run)
        await feed.send(CaughtUp(3))
        await applier.applied.wait_until(lambda newest: newest is not None)
        readiness = Readiness(applier, gate, Followed(), decider_of(applier), lambda: True)
        code, text = await ask(readiness, is_public=False)
        if stops:
            assert (code, text) == (
                503,
                "decisions have stopped: broker 1 is newer. Upgrade the daemon, or set"
                " authorizerd.kafka.release.unknown=warn\n",
            )
        else:
            assert code == 200
            assert text.endswith("; judged by the rules of Kafka 4.3 or 4.4: broker 1 is newer\n")


def stop_audit(cause: Cause) -> None:
    cause.audit_log.statistics.failing = 1  # as after a write to a full disk
    cause.audit_log.set_required(True)


def fill_audit(cause: Cause) -> None:
    cause.audit_log.set_required(True)
    question = Question("User:a", None, Operation.READ, ResourceType.TOPIC, "t")
    cause.audit_log.record(AuditEvent(0.0, AuditLevel.INFO, question, DEFAULT_DENY, "Test", 0))


def stop_plugin(cause: Cause) -> None:
    cause.plugin.is_serving = False


def stop_workers(cause: Cause) -> None:
    cause.workers.refusal = "the workers stopped"


async def suspend(cause: Cause) -> None:
    await cause.feed.send(Suspend("stale"))
    await cause.applier.snapshot.wait_until(lambda newest: newest is None)


class Plugin(Plug):
    """A custom authorizer that may stop answering."""

    is_serving = True

    def serves(self, principal: str) -> bool:
        return self.is_serving

    @property
    def not_ready_reason(self) -> str:
        return "its server\nis away"


class Workers:
    """A pool of workers that listen."""

    refusal = ""
    is_ready = True
    listening = 2


class Cause:
    """A loaded daemon, and what may stop its decisions."""

    def __init__(self, *, is_plugged: bool = False) -> None:
        self.feed, inbox = trio.open_memory_channel[Message](1)
        self.applier = RecordApplier(inbox)
        self.audit_log = RecordingAuditLog()
        auditor = Auditor(self.audit_log, level=AuditLevel.INFO, now_s=lambda: 0.0)
        self.authorizer: DaemonAuthorizer = decider_of(self.applier, auditor)
        self.plugin = Plugin()
        if is_plugged:
            self.authorizer = PluggedAuthorizer(
                self.plugin, name="x", snapshot=self.applier.snapshot, on_failure=print
            )
        self.workers = Workers()
        self.gate = ListenerGate({})
        self.readiness = Readiness(
            self.applier,
            self.gate,
            Followed(),
            self.authorizer,
            lambda: True,
            cast(WorkerPool, self.workers),
        )

    async def start(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.applier.run)
        nursery.start_soon(self.gate.run)
        await self.feed.send(CaughtUp(3))
        await self.applier.snapshot.wait_until(lambda newest: newest is not None)


@pytest.mark.parametrize(
    ("stop", "said", "said_publicly"),
    [
        (stop_audit, f"decisions are refused: {NOT_WRITTEN}", None),
        (fill_audit, f"decisions are refused: {NOT_WRITTEN}", None),
        (stop_plugin, "decisions are refused: its server\\nis away", "the admin port says why"),
        (stop_workers, "decisions are refused: the workers stopped", "the admin port says why"),
        (suspend, "waiting for the cluster: no contact so far", None),
    ],
)
async def test_every_reason_to_refuse_all_decisions_is_told(
    nursery: trio.Nursery,
    stop: Callable[[Cause], Awaitable[None] | None],
    said: str,
    said_publicly: str | None,
) -> None:
    """/readyz has it on both ports, and so have the health check of OPA and the callers."""
    cause = Cause(is_plugged=stop is stop_plugin)
    await cause.start(nursery)
    assert cause.readiness.is_ready
    assert (await ask(cause.readiness))[0] == 200
    stopping = stop(cause)
    if stopping is not None:
        await stopping
    assert not cause.readiness.is_ready
    assert await ask(cause.readiness) == (503, f"{said}\n")
    public = said if said_publicly is None else f"decisions are refused: {said_publicly}"
    assert await ask(cause.readiness, is_public=True) == (503, f"{public}\n")
    if stop is not stop_workers:  # this process decides nothing then, but could
        assert cause.authorizer.refusal == cause.authorizer.not_ready_reason
        health = replace(READYZ, path=HEALTH_PATH)
        answer = await answer_of(OpaHandler(cause.authorizer, Callers(None))(health))
        assert answer.status == 503
        assert answer.body.decode() == f"{cause.authorizer.refusal}\n"


async def test_daemon_is_ready_again_once_the_audit_is_written(nursery: trio.Nursery) -> None:
    cause = Cause()
    await cause.start(nursery)
    stop_audit(cause)
    assert not cause.readiness.is_ready
    cause.audit_log.statistics.failing = 0
    cause.audit_log.set_required(True)
    assert cause.readiness.is_ready


READY = ReadyFile(
    listeners={"PLAINTEXT": "127.0.0.1:1"},
    decision_http="127.0.0.1:2",
    decision_stream=None,
    admin_http="127.0.0.1:3",
    metrics_http=None,
    offset=4,
)


def test_ready_file_replaces_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("earlier")
    write_ready_file(path, READY)
    assert json.loads(path.read_bytes())["admin_http"] == "127.0.0.1:3"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_link", [True, False])
def test_existing_file_at_the_temporary_name_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_link: bool
) -> None:
    """A user with write access to the folder cannot redirect the write."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    monkeypatch.setattr(ready_file, "token_hex", lambda size: "guessed")
    aside = tmp_path / "ready.json.guessed.part"
    if is_link:
        aside.symlink_to(victim)
    else:
        os.link(victim, aside)
    with pytest.raises(StartError, match=r"--ready-file: .*File exists"):
        write_ready_file(tmp_path / "ready.json", READY)
    assert victim.read_text() == "kept"
    assert aside.exists()


def test_temporary_name_is_unpredictable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: set[str] = set()

    def keep(self: Path, target: Path) -> None:
        names.add(self.name)

    monkeypatch.setattr(Path, "replace", keep)
    for _ in range(2):
        write_ready_file(tmp_path / "ready.json", READY)
    assert len(names) == 2


def test_failed_rename_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "ready.json").mkdir()
    with pytest.raises(StartError, match=r"--ready-file: .*ready\.json: Is a directory"):
        write_ready_file(tmp_path / "ready.json", READY)
    assert [each.name for each in tmp_path.iterdir()] == ["ready.json"]
