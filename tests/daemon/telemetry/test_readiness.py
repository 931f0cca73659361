"""What /readyz says about a followed cluster. (test_systemd.py has the rest.)"""

from __future__ import annotations

import pytest
import trio
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from authorizerd.acl.model import AclAdded, ChangeBatch
from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.releases import ANY_RELEASE
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.record_applier import CaughtUp, Message, RecordApplier
from authorizerd.actors.standard_decider import StandardDecider
from authorizerd.config.follow import SourceKind
from authorizerd.daemon.sources.source import Source
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.daemon.telemetry.admin import AdminHandler
from authorizerd.daemon.telemetry.readiness import SHOWN_MAX, Readiness
from authorizerd.protocol.http.messages import Request
from tests.support.acls import acl

READYZ = Request(method="GET", path="/readyz", query="", headers={}, body=b"", keep_alive=True)


class Followed(Source):
    high_watermark = 5
    metadata_version = -1

    status = SourceStatus(SourceKind.QUORUM)

    async def run(self, applier: trio.MemorySendChannel[Message]) -> None: ...


def decider_of(applier: RecordApplier, auditor: Auditor | None = None) -> StandardDecider:
    return StandardDecider(
        applier.snapshot, auditor, why_no_snapshot=lambda: applier.not_ready_reason
    )


async def ask(readiness: Readiness, *, is_public: bool = False) -> tuple[int, str]:
    handler = AdminHandler(CollectorRegistry(), readiness, is_public=is_public)
    answer = await handler(replace(READYZ))
    return answer.status, bytes(answer.body).decode()


@pytest.mark.parametrize("is_public", [False, True])
async def test_last_error_is_shown_until_the_daemon_is_ready(
    nursery: trio.Nursery, is_public: bool
) -> None:
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
    decider = decider_of(applier)
    readiness = Readiness(applier, ListenerGate({}), source, decider, lambda: True)
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
            Readiness(applier, gate, Followed(), decider_of(applier), lambda: True), is_public=False
        )
        if stops:
            assert (code, text) == (
                503,
                "decisions have stopped: broker 1 is newer. Upgrade the daemon, or set"
                " authorizerd.kafka.release.unknown=warn\n",
            )
        else:
            assert code == 200
            assert text.endswith("; judged by the rules of Kafka 4.3 or 4.4: broker 1 is newer\n")
