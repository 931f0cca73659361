"""The machine of a follower, event by event."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from authorizerd.config.follow.settings import Server
from authorizerd.daemon.sources.quorum.contact import ELECTION_QUESTIONS, OLD_EPOCH_SECONDS, Contact
from authorizerd.daemon.sources.quorum.fetched_log import FetchedLog
from authorizerd.daemon.sources.quorum.machine import FETCH_WAIT_MS, SHORT_WAIT_MS, Machine
from authorizerd.daemon.sources.quorum.messages import (
    AbandonSnapshot,
    ApplySnapshot,
    AskCluster,
    ClusterAnswered,
    Confirm,
    Connect,
    Connected,
    ConnectionLost,
    CountFailure,
    Disconnect,
    Effect,
    Event,
    FetchAnswered,
    PassOn,
    Probe,
    ReleaseBarriers,
    ReportFault,
    ReportLoaded,
    Request,
    SendFetch,
    SendFetchSnapshot,
    SnapshotAnswered,
    SnapshotApplied,
    SnapshotDamaged,
    Stop,
    TimePassed,
    Wait,
)
from authorizerd.daemon.sources.quorum.route import ELECTION_SECONDS, NODES_MAX, SECONDS_MAX
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer, FetchPosition, SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import EpochEnd, SnapshotId
from authorizerd.protocol.records.batch import RecordBatch
from tests.daemon.sources.quorum.quorum_model import leader_change_batch, new_batch

EPOCH = 5
LEADER = 1
HOST = "controller-1"
ENDPOINTS = {LEADER: (HOST, 9093)}
SERVERS = (Server(HOST, 9093), Server("controller-2", 9093))
FIRST = leader_change_batch(0, EPOCH)
NEWER: dict[str, object] = {"leader_epoch": EPOCH + 1, "leader_id": 2, "endpoints": {2: ("b", 1)}}
"""What an answer says of the next leader."""

ANSWER = FetchAnswer(error_code=0, leader_id=LEADER, leader_epoch=EPOCH, endpoints=ENDPOINTS)
PIECE = SnapshotAnswer(
    error_code=0,
    leader_id=LEADER,
    leader_epoch=EPOCH,
    endpoints=ENDPOINTS,
    snapshot=SnapshotId(10, EPOCH),
)


def answered(*batches: RecordBatch, **fields: object) -> FetchAnswered:
    """Return the leader's answer, in which ``fields`` replace the usual ones."""
    return FetchAnswered(replace(ANSWER, **fields), batches)


def piece(position: int, data: bytes, size: int, **fields: object) -> SnapshotAnswered:
    """Return the leader's answer with a piece of snapshot 10-5."""
    return SnapshotAnswered(replace(PIECE, position=position, data=data, size=size, **fields))


class Script:
    """A machine, and its answer to the last event."""

    def __init__(
        self,
        *,
        end_offset: int = 0,
        epoch: int = 0,
        servers: Sequence[Server] = SERVERS,
        cluster_id: str | None = "cluster",
        bytes_max: int = 1000,
        last: RecordBatch | None = None,
        named_cluster: str | None = None,
    ) -> None:
        mark = None if last is None else last.mark
        log = FetchedLog(end_offset, epoch, bytes_max=bytes_max, last=mark)
        contact = Contact(servers, epoch=epoch, random=lambda: 0.5, named_cluster=named_cluster)
        self.machine = Machine(contact, log, cluster_id=cluster_id)
        self.now = 0.0
        self.effects: list[Effect] = []
        self.request: Request = Stop()

    def tell(self, *events: Event) -> Request:
        """Let the machine handle events; return its last request."""
        for event in events:
            turn = self.machine.step(event, self.now)
            self.effects, self.request = list(turn.effects), turn.request
        return self.request

    def follow(self, version: int = 18) -> Script:
        """Find the leader of epoch 5 at the first server; return this script."""
        self.tell(TimePassed(), Connected(version))
        if self.machine.contact.route.epoch < EPOCH:
            self.tell(answered(error_code=ErrorCode.FENCED_LEADER_EPOCH), TimePassed())
        return self

    def sent(self) -> SendFetch:
        assert isinstance(self.request, SendFetch)
        return self.request

    def waited(self) -> float:
        """Return the seconds that the machine waits, and let them pass."""
        assert isinstance(self.request, Wait)
        seconds = self.request.until - self.now
        self.now = self.request.until
        self.tell(TimePassed())
        return seconds

    def refuse(self, times: int) -> list[str]:
        """Refuse connections; return the hosts that the machine tried."""
        hosts = []
        for _ in range(times):
            assert isinstance(self.request, Connect)
            hosts.append(self.request.address.host)
            self.tell(ConnectionLost("connection", "refused"))
            self.waited()
        return hosts

    def counted(self) -> list[str]:
        return [effect.reason for effect in self.effects if isinstance(effect, CountFailure)]

    def fault(self) -> ReportFault:
        [fault] = [effect for effect in self.effects if isinstance(effect, ReportFault)]
        assert self.request == Stop()
        assert self.tell(TimePassed()) == Stop()
        return fault


def test_the_leader_is_found_by_the_answer_of_any_server() -> None:
    """The first Fetch names no epoch; the answer names epoch and leader, wherever it is."""
    script = Script()
    assert script.tell(TimePassed()) == Connect(Address(HOST, 9093))
    script.tell(Connected(18))
    assert script.sent().position.leader_epoch == 0
    assert script.sent().position.last_epoch == 0
    code = ErrorCode.FENCED_LEADER_EPOCH
    script.tell(answered(error_code=code, leader_id=7, endpoints={7: ("elsewhere", 19)}))
    assert script.effects == [Disconnect()]
    assert script.waited() == 0
    assert script.request == Connect(Address("elsewhere", 19))
    script.tell(Connected(18))
    assert script.sent().position.leader_epoch == EPOCH


def test_the_cluster_is_asked_for_its_id_before_the_first_fetch() -> None:
    script = Script(cluster_id=None)
    assert script.tell(TimePassed(), Connected(18)) == AskCluster()
    assert isinstance(script.tell(ClusterAnswered("id")), SendFetch)
    assert script.machine.cluster_id == "id"


def test_servers_are_tried_in_turn_with_growing_pauses() -> None:
    """The pauses double up to a limit. A success makes them short again."""
    script = Script()
    script.tell(TimePassed())
    hosts, pauses = [], []
    for _ in range(10):
        assert isinstance(script.request, Connect)
        hosts.append(script.request.address.host)
        script.tell(ConnectionLost("connection", "refused"))
        assert script.counted() == ["connection"]
        pauses.append(script.waited())
    assert hosts[:4] == [HOST, "controller-2", HOST, "controller-2"]
    assert pauses[:3] == [pytest.approx(0.05), pytest.approx(0.1), pytest.approx(0.2)]
    assert pauses[-1] == pytest.approx(SECONDS_MAX)
    script.tell(Connected(18), answered(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    script.tell(TimePassed(), answered(FIRST))
    script.tell(ConnectionLost("connection", "cut"))
    assert script.waited() == pytest.approx(0.05)


def test_nodes_that_name_each_other_are_not_asked_without_a_pause() -> None:
    """Each names the other in the same epoch, as after a leader died."""
    script = Script()
    pauses = []
    script.tell(TimePassed())
    for number in range(8):
        other = {2: ("b", 1)} if number % 2 else {1: ("a", 1)}
        event = answered(
            error_code=ErrorCode.FENCED_LEADER_EPOCH,
            leader_id=next(iter(other)),
            leader_epoch=EPOCH + number,
            endpoints=other,
        )
        script.tell(Connected(18), event)
        pauses.append(script.waited())
    assert pauses[:3] == [0, 0, 0]
    assert pauses[3:] == [pytest.approx(0.05 * (1 << number)) for number in range(5)]


def test_only_records_below_the_high_watermark_are_passed_on() -> None:
    """The leader serves more, and its first answers have no high watermark."""
    script = Script().follow()
    second, third = new_batch(1, EPOCH, 2, b"a"), new_batch(3, EPOCH, 1, b"b")
    script.tell(answered(FIRST, second, high_watermark=-1))
    assert script.effects == []
    assert script.sent().position.offset == 3
    script.tell(answered(third, high_watermark=2))
    assert script.effects == [PassOn((FIRST,))]
    script.tell(answered(high_watermark=4))
    assert script.effects == [PassOn((second, third)), ReportLoaded(), Confirm()]
    assert script.machine.log.committed_end == 4


def test_loaded_is_reported_once_at_the_first_high_watermark() -> None:
    """Later commits do not delay it; nor does it count as confirmed yet."""
    script = Script().follow()
    batches = [FIRST, *[new_batch(n, EPOCH, 1, b"") for n in range(1, 6)]]
    script.tell(answered(*batches[:2], high_watermark=4))
    assert script.effects == [PassOn(tuple(batches[:2]))]
    script.tell(answered(*batches[2:4], high_watermark=6))
    assert script.effects == [PassOn(tuple(batches[2:4])), ReportLoaded()]
    script.tell(answered(*batches[4:], high_watermark=6))
    assert script.effects == [PassOn(tuple(batches[4:])), Confirm()]


def test_an_old_high_watermark_of_a_new_leader_confirms_nothing() -> None:
    """A leader knows what is committed once a record of its own epoch is."""
    script = Script(end_offset=3, epoch=EPOCH - 1).follow()
    change = leader_change_batch(3, EPOCH)
    script.tell(answered(change, high_watermark=2))
    assert script.effects == []
    ticket = script.machine.barriers.add()
    script.tell(answered(high_watermark=3))
    script.tell(answered(high_watermark=3))
    assert script.effects == []
    script.tell(answered(high_watermark=4))
    assert script.effects == [PassOn((change,)), ReportLoaded(), released(ticket), Confirm()]


def test_a_barrier_needs_a_fetch_that_is_sent_later() -> None:
    script = Script().follow()
    script.tell(answered(FIRST, high_watermark=1))
    ticket = script.machine.barriers.add()
    script.tell(answered(high_watermark=1))  # sent before
    assert script.effects == [Confirm()]
    assert script.sent().max_wait_ms == SHORT_WAIT_MS
    later = script.machine.barriers.add()
    script.tell(answered(high_watermark=1))
    assert script.effects == [released(ticket), Confirm()]
    script.tell(answered(high_watermark=1))
    assert script.effects == [released(later), Confirm()]
    assert script.sent().max_wait_ms == FETCH_WAIT_MS


def test_a_barrier_waits_for_records_that_the_answer_does_not_bring() -> None:
    script = Script().follow()
    script.tell(answered(FIRST, high_watermark=1))
    ticket = script.machine.barriers.add()
    script.tell(answered(high_watermark=1), answered(high_watermark=2))
    assert script.effects == []
    batch = new_batch(1, EPOCH, 1, b"")
    script.tell(answered(batch, high_watermark=2))
    assert script.effects == [PassOn((batch,)), released(ticket), Confirm()]


def released(ticket: int) -> ReleaseBarriers:
    return ReleaseBarriers(ticket, Address(HOST, 9093))


def begin_probe() -> tuple[Script, int, Probe]:
    """Add a barrier while a Fetch waits at the leader of epoch 5; return its ticket and probe."""
    script = Script().follow()
    script.tell(answered(FIRST, high_watermark=1))
    assert script.machine.begin_probe() is None, "no barrier waits"
    ticket = script.machine.barriers.add()
    probe = script.machine.begin_probe()
    assert probe is not None
    assert probe.address == Address(HOST, 9093)
    assert probe.request.max_wait_ms == 0
    return script, ticket, probe


def test_a_barrier_passes_by_a_probe() -> None:
    """The usual Fetch that was sent before it need not return."""
    script, ticket, probe = begin_probe()
    later = script.machine.barriers.add()
    assert script.machine.end_probe(probe, answered(high_watermark=1).answer) == released(ticket)
    script.tell(answered(high_watermark=1))
    assert script.effects == [Confirm()]
    script.tell(answered(high_watermark=1))
    assert script.effects == [released(later), Confirm()]


def test_a_barrier_waits_for_the_records_below_the_watermark_of_a_probe() -> None:
    script, ticket, probe = begin_probe()
    assert script.machine.end_probe(probe, answered(high_watermark=2).answer) is None
    batch = new_batch(1, EPOCH, 1, b"")
    script.tell(answered(batch, high_watermark=2))
    assert script.effects == [PassOn((batch,)), released(ticket), Confirm()]


@pytest.mark.parametrize(
    "fields",
    [
        {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER, "high_watermark": 1},
        {"leader_epoch": EPOCH - 1, "high_watermark": 1},
        {"leader_epoch": EPOCH + 1, "high_watermark": 1},
        {"high_watermark": -1},
    ],
)
def test_a_barrier_does_not_pass_by_a_useless_probe(fields: dict[str, object]) -> None:
    script, ticket, probe = begin_probe()
    assert script.machine.end_probe(probe, answered(**fields).answer) is None
    script.tell(answered(high_watermark=1), answered(high_watermark=1))
    assert script.effects == [released(ticket), Confirm()]


def test_a_probe_of_a_deposed_leader_counts_for_nothing() -> None:
    script, _, probe = begin_probe()
    script.tell(answered(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader_epoch=EPOCH + 1))
    assert script.machine.end_probe(probe, answered(high_watermark=1).answer) is None


@pytest.mark.parametrize(
    ("version", "waits"),
    [(17, [SHORT_WAIT_MS, 2 * SHORT_WAIT_MS, 4 * SHORT_WAIT_MS]), (18, [FETCH_WAIT_MS] * 3)],
)
def test_old_leader_is_asked_often_while_records_wait(version: int, waits: list[int]) -> None:
    """From version 18 on, the leader answers as soon as it has a higher high watermark."""
    script = Script().follow(version)
    found = []
    for batches in ([FIRST], [], []):
        script.tell(answered(*batches, high_watermark=0))
        found.append(script.sent().max_wait_ms)
    assert found == waits
    for _ in range(20):
        script.tell(answered(high_watermark=0))
    assert script.sent().max_wait_ms == FETCH_WAIT_MS
    script.tell(answered(high_watermark=1))
    assert script.sent().max_wait_ms == FETCH_WAIT_MS


def test_uncommitted_records_are_bounded() -> None:
    """Beyond the bound, records are not kept, and the leader is asked less often."""
    script = Script(bytes_max=250).follow()
    more = [new_batch(n, EPOCH, 1, b"x" * 100) for n in range(1, 9)]
    script.tell(answered(FIRST, *more, high_watermark=0))
    assert script.waited() > 0
    kept = script.sent().position.offset
    assert kept < 5
    script.tell(answered(*more[kept - 1 :], high_watermark=0))
    assert script.waited() > 0
    assert script.sent().position.offset == kept
    script.tell(answered(*more[kept - 1 :], high_watermark=3))
    assert script.effects[0] == PassOn((FIRST, *more[:2]))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (answered(FIRST, FIRST, high_watermark=9), "garbage"),
        (answered(FIRST, *[new_batch(1, EPOCH, 1, b"")] * 2, high_watermark=9), "garbage"),
        (answered(new_batch(3, EPOCH, 1, b""), high_watermark=9), "garbage"),
        (answered(FIRST, new_batch(1, EPOCH - 1, 1, b""), high_watermark=9), "garbage"),
        (answered(FIRST, leader_change_batch(1, EPOCH + 1), high_watermark=9), "garbage"),
        (answered(new_batch(0, EPOCH, 1, b""), high_watermark=9), "garbage"),
        (answered(high_watermark=9, diverging=EpochEnd(EPOCH, 9)), "garbage"),
        (answered(high_watermark=9, snapshot=SnapshotId(0, 0)), "garbage"),
        (answered(high_watermark=9, snapshot=SnapshotId(10, EPOCH + 1)), "garbage"),
        (answered(high_watermark=9, snapshot=SnapshotId(10, -1)), "garbage"),
        (answered(high_watermark=9, leader_id=2), "garbage"),
        (answered(high_watermark=9, leader_epoch=-1, leader_id=-1), "garbage"),
        (answered(high_watermark=9, leader_epoch=EPOCH - 1), "UNKNOWN_LEADER_EPOCH"),
        (answered(error_code=31), "CLUSTER_AUTHORIZATION_FAILED"),
        (answered(error_code=777), "error 777"),
        (answered(error_code=8), "BROKER_NOT_AVAILABLE"),
        (answered(error_code=104), "INCONSISTENT_CLUSTER_ID"),
        (ConnectionLost("connection", "cut"), "connection"),
        (SnapshotDamaged("no footer"), "snapshot"),
    ],
)
def test_useless_answer_drops_the_connection_and_changes_nothing(event: Event, reason: str) -> None:
    script = Script().follow()
    script.tell(answered(high_watermark=0))
    script.tell(event)
    assert script.counted() == [reason]
    assert script.effects[-1] == Disconnect()
    assert script.machine.log.committed_end == 0
    assert script.waited() > 0
    assert script.request == Connect(Address("controller-2", 9093))
    assert script.machine.contact.leader is None


@pytest.mark.parametrize("code", [3, 100])
def test_the_error_of_a_broker_names_the_remedy(code: int) -> None:
    script = Script().follow()
    script.tell(answered(error_code=code))
    [failure] = [effect for effect in script.effects if isinstance(effect, CountFailure)]
    assert failure.text.startswith(f"{HOST}:9093: ")
    assert "name controllers, not brokers" in failure.text


def test_records_that_a_new_leader_lacks_are_truncated() -> None:
    """They are dropped from the epoch on that the new leader does not have."""
    script = Script(end_offset=3, epoch=EPOCH - 1).follow()
    own = new_batch(4, EPOCH, 1, b"a"), new_batch(5, EPOCH, 1, b"b")
    script.tell(answered(leader_change_batch(3, EPOCH), *own, high_watermark=3))
    script.tell(answered(error_code=ErrorCode.FENCED_LEADER_EPOCH, **NEWER))
    script.waited()
    script.tell(Connected(18), answered(diverging=EpochEnd(EPOCH, 5), **NEWER))
    assert script.sent().position.offset == 5
    assert script.sent().position.last_epoch == EPOCH
    script.tell(answered(diverging=EpochEnd(EPOCH - 1, 3), **NEWER))
    assert script.sent().position.offset == 3
    change = leader_change_batch(3, EPOCH + 1)
    script.tell(answered(change, high_watermark=4, **NEWER))
    assert script.effects[0] == PassOn((change,))


def test_a_high_watermark_of_an_earlier_leader_commits_nothing() -> None:
    """Another leader has other records at these offsets until it commits them."""
    script = Script().follow()
    script.tell(answered(FIRST, high_watermark=9))
    script.tell(answered(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, **NEWER))
    script.waited()
    script.tell(Connected(18), answered(leader_change_batch(1, EPOCH + 1), **NEWER))
    assert not [effect for effect in script.effects if isinstance(effect, PassOn)]


@pytest.mark.parametrize(
    "contradiction",
    [
        {"diverging": EpochEnd(EPOCH, 9)},
        {"diverging": EpochEnd(EPOCH - 1, 12)},
        {"snapshot": SnapshotId(10, EPOCH)},
        {"snapshot": SnapshotId(8, EPOCH)},
        {"error_code": ErrorCode.OFFSET_OUT_OF_RANGE},
    ],
)
def test_log_without_what_was_passed_on_is_lasting_fault(contradiction: dict[str, object]) -> None:
    """Records beyond it are dropped first: only they may be wrong."""
    script = Script(end_offset=10, epoch=EPOCH).follow()
    script.tell(answered(new_batch(10, EPOCH, 1, b""), high_watermark=10))
    script.tell(answered(**contradiction))
    if isinstance(script.request, Wait):
        script.waited()
    assert script.sent().position.offset == 10
    script.tell(answered(**contradiction))
    fault = script.fault()
    assert fault.offset == 9
    assert "authorizerd reset-copy" in fault.text


def follow_last(*again: RecordBatch, **fields: object) -> Script:
    """Follow with a copy whose last batch is known; ``again`` answers the question for it."""
    last = new_batch(8, EPOCH, 2, b"last")
    script = Script(end_offset=10, epoch=EPOCH, last=last)
    script.tell(TimePassed(), Connected(18))
    assert script.sent() == SendFetch(FetchPosition(offset=8, last_epoch=5, leader_epoch=5), 0, 1)
    script.tell(answered(*(again or (last,)), **fields))
    return script


def test_last_batch_is_asked_for_again_once_on_each_connection() -> None:
    """Nothing of that answer is passed on, whatever the high watermark is."""
    script = follow_last(high_watermark=10)
    assert script.effects == []
    assert script.sent().position.offset == 10
    script.tell(answered(new_batch(10, EPOCH, 1, b"next"), high_watermark=11))
    assert script.sent().position.offset == 11
    script.tell(ConnectionLost("connection", "cut"))
    script.waited()
    script.tell(Connected(18))
    assert script.sent().position.offset == 10
    script.tell(answered(new_batch(10, EPOCH, 1, b"next")))
    assert script.sent().position.offset == 11


@pytest.mark.parametrize(
    "other",
    [
        new_batch(8, EPOCH, 2, b"other"),
        new_batch(7, EPOCH, 2, b"last"),
        new_batch(6, EPOCH, 9, b"more"),
        leader_change_batch(8, EPOCH),
    ],
)
def test_other_batch_in_the_place_of_the_last_is_a_permanent_fault(other: RecordBatch) -> None:
    fault = follow_last(other, new_batch(10, EPOCH, 1, b""), high_watermark=11).fault()
    assert fault.offset == 9
    assert "authorizerd reset-copy" in fault.text


@pytest.mark.parametrize("first", [6, 10])
def test_answer_without_the_last_batch_changes_nothing(first: int) -> None:
    script = follow_last(new_batch(first, EPOCH, 2, b""), high_watermark=12)
    assert script.counted() == ["garbage"]


def test_leader_whose_log_begins_later_is_followed() -> None:
    """The last batch is only in its snapshot, so there is nothing to compare."""
    script = follow_last(snapshot=SnapshotId(10, EPOCH))
    assert script.sent().position.offset == 10
    script.tell(answered(new_batch(10, EPOCH, 1, b""), high_watermark=11))
    assert [effect for effect in script.effects if isinstance(effect, PassOn)]


def test_log_that_ends_before_the_last_batch_is_a_permanent_fault() -> None:
    script = follow_last(diverging=EpochEnd(EPOCH - 1, 8))
    assert "authorizerd reset-copy" in script.fault().text


def test_another_cluster_at_the_first_contact_is_a_permanent_fault() -> None:
    script = Script(end_offset=10, epoch=EPOCH)
    script.tell(TimePassed(), Connected(18), answered(error_code=104))
    assert "another cluster than the daemon's copy" in script.fault().text


def test_wrong_id_in_the_configuration_is_blamed_rather_than_the_copy() -> None:
    script = Script(end_offset=0, epoch=0, named_cluster="named")
    script.tell(TimePassed(), Connected(18), answered(error_code=104))
    said = script.fault().text
    assert "expected cluster named, found another" in said
    assert "correct authorizerd.source.cluster.id" in said
    assert "copy" not in said


def claim_old_epoch(script: Script, endpoints: object) -> None:
    """Let the connected server claim that controller 1 leads an older epoch."""
    script.tell(Connected(18))
    script.tell(answered(error_code=75, leader_epoch=EPOCH - 1, endpoints=endpoints))


def test_a_leader_that_stays_in_an_older_epoch_is_a_permanent_fault() -> None:
    """A deposed leader resigns within seconds."""
    script = Script(end_offset=10, epoch=EPOCH, servers=SERVERS[:1])
    script.tell(TimePassed())
    while script.now < OLD_EPOCH_SECONDS:
        claim_old_epoch(script, ENDPOINTS)
        assert script.counted() == ["UNKNOWN_LEADER_EPOCH"]
        script.waited()
    claim_old_epoch(script, ENDPOINTS)
    assert "older epoch 4" in script.fault().text


def test_a_follower_of_an_older_epoch_is_no_fault() -> None:
    """A voter that is cut off from the quorum may name its last leader for ever."""
    script = Script(end_offset=10, epoch=EPOCH, servers=SERVERS[:1])
    script.tell(TimePassed())
    while script.now < 3 * OLD_EPOCH_SECONDS:
        claim_old_epoch(script, {LEADER: ("elsewhere", 1)})
        assert script.counted() == ["UNKNOWN_LEADER_EPOCH"]
        script.waited()


FALSE_EPOCH = 1000
"""An epoch that one controller announces, although nobody leads it."""


def announce_false_epoch(script: Script) -> None:
    """Let the connected server, controller 2, name the false epoch and no leader."""
    script.tell(Connected(18))
    event = answered(error_code=74, leader_id=-1, leader_epoch=FALSE_EPOCH, endpoints={})
    while isinstance(script.tell(event), Wait):
        if Disconnect() in script.effects:
            break
        script.waited()
    script.waited()


def ask_both_until(script: Script, seconds: float, *, epoch: int) -> None:
    """Let controller 2 announce the false epoch, and controller 1 claim to lead ``epoch``."""
    while script.now < seconds:
        assert isinstance(script.request, Connect)
        if script.request.address.host == HOST:
            script.tell(Connected(18), answered(error_code=75, leader_epoch=epoch))
            if isinstance(script.request, Stop) or Disconnect() not in script.effects:
                break
            script.waited()
        else:
            announce_false_epoch(script)


def test_false_later_epoch_is_forgotten() -> None:
    """Even while a controller goes on announcing it, the real leader is followed again."""
    script = Script(end_offset=10, epoch=EPOCH).follow()
    script.tell(answered(high_watermark=10), ConnectionLost("connection", "cut"))
    script.waited()
    announce_false_epoch(script)
    assert script.machine.contact.route.epoch == FALSE_EPOCH
    ask_both_until(script, OLD_EPOCH_SECONDS - 5, epoch=EPOCH)
    assert script.machine.contact.route.epoch == FALSE_EPOCH
    ask_both_until(script, 2 * OLD_EPOCH_SECONDS, epoch=EPOCH)
    assert script.now < OLD_EPOCH_SECONDS + 10
    assert script.waited() == 0
    assert script.sent().position.leader_epoch == EPOCH
    script.tell(answered(high_watermark=10))
    assert Confirm() in script.effects


def test_false_later_epoch_does_not_hide_a_restored_cluster() -> None:
    """The leader's epoch is older than that of records that were committed."""
    script = Script(end_offset=10, epoch=EPOCH)
    script.tell(TimePassed(), ConnectionLost("connection", "cut"))
    script.waited()
    announce_false_epoch(script)
    while not isinstance(script.request, Stop):
        ask_both_until(script, script.now + 1, epoch=EPOCH - 1)
        assert script.now < OLD_EPOCH_SECONDS + 10
    assert "older epoch 4" in script.fault().text


def test_epoch_of_a_leader_with_a_high_watermark_is_never_forgotten() -> None:
    """A majority has elected it, although none of its records was fetched yet."""
    script = Script(end_offset=10, epoch=EPOCH - 1, servers=SERVERS[:1]).follow()
    script.tell(answered(leader_change_batch(10, EPOCH), high_watermark=10))
    script.tell(ConnectionLost("connection", "cut"))
    script.waited()
    while script.now < OLD_EPOCH_SECONDS + 1:
        claim_old_epoch(script, ENDPOINTS)
        if script.request == Stop():
            break
        script.waited()
    assert "older epoch 4" in script.fault().text


SECOND, THIRD = Address("controller-2", 9093), Address("controller-3", 9093)
NAMES_LEADER = answered(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Another node's answer: the leader is the one that has failed."""


def lose_leader(*, is_silent: bool = False) -> Script:
    """Follow the leader of three controllers, and lose it."""
    script = Script(servers=(*SERVERS, Server("controller-3", 9093))).follow()
    script.tell(answered(FIRST, high_watermark=1))
    script.tell(ConnectionLost("connection", "cut", is_silent=is_silent))
    assert script.waited() == pytest.approx(0.05)
    assert script.request == Connect(SECOND)
    return script


def test_leader_that_lost_a_connection_is_tried_again_if_others_name_it() -> None:
    script = lose_leader()
    script.tell(Connected(18), NAMES_LEADER)
    assert script.waited() == 0
    assert script.request == Connect(Address(HOST, 9093))
    assert isinstance(script.tell(Connected(18)), SendFetch)


@pytest.mark.parametrize("is_silent", [False, True])
def test_node_that_answers_is_asked_until_a_leader_is_elected(is_silent: bool) -> None:
    """The pauses do not grow, and the leader that is down is not tried in between."""
    script = lose_leader(is_silent=is_silent)
    if not is_silent:
        script.tell(Connected(18), NAMES_LEADER)
        script.waited()
        script.tell(ConnectionLost("connection", "refused"))
        script.waited()
        assert script.request == Connect(THIRD)
    script.tell(Connected(18))
    for _ in range(ELECTION_QUESTIONS - 1):
        script.tell(NAMES_LEADER)
        assert script.waited() == pytest.approx(ELECTION_SECONDS)
        assert isinstance(script.request, SendFetch), "the connection is kept"
    elected = {"leader_id": 2, "leader_epoch": EPOCH + 1, "endpoints": {2: ("new", 1)}}
    script.tell(answered(error_code=ErrorCode.FENCED_LEADER_EPOCH, **elected))
    assert script.waited() == 0
    assert script.request == Connect(Address("new", 1))


def test_node_that_learns_of_no_leader_is_left() -> None:
    """It may be cut off from the others."""
    script = lose_leader(is_silent=True)
    script.tell(Connected(18))
    for _ in range(ELECTION_QUESTIONS):
        script.tell(NAMES_LEADER)
        script.waited()
    assert script.request == Connect(THIRD)


def begin_snapshot(script: Script) -> None:
    script.follow()
    script.tell(answered(snapshot=SnapshotId(10, EPOCH), high_watermark=12))
    assert isinstance(script.request, SendFetchSnapshot)


def test_a_snapshot_is_fetched_in_pieces_and_replaces_the_log() -> None:
    script = Script(end_offset=2, epoch=1)
    begin_snapshot(script)
    script.tell(piece(0, b"abc", 5))
    assert isinstance(script.request, SendFetchSnapshot)
    assert script.request.position == 3
    # A broken connection to the same leader does not begin it again.
    script.tell(ConnectionLost("connection", "cut"))
    script.waited()
    script.tell(Connected(18))
    assert isinstance(script.request, SendFetchSnapshot)
    assert script.request.position == 3
    assert script.tell(piece(3, b"de", 5)) == ApplySnapshot(SnapshotId(10, EPOCH))
    script.tell(SnapshotApplied())
    assert script.sent().position.offset == 10
    assert script.sent().position.last_epoch == EPOCH


@pytest.mark.parametrize(
    "event",
    [
        piece(0, b"", 5, error_code=ErrorCode.SNAPSHOT_NOT_FOUND),
        piece(0, b"", 5, error_code=ErrorCode.POSITION_OUT_OF_RANGE),
        # What Kafka 4.3.1 answers instead of these.
        SnapshotAnswered(SnapshotAnswer(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)),
        piece(2, b"abc", 5),
        piece(3, b"", 5),
        piece(3, b"abc", 5),
        piece(3, b"de", 6),
        piece(3, b"de", 5, snapshot=SnapshotId(11, EPOCH)),
        piece(3, b"de", 5, error_code=ErrorCode.FENCED_LEADER_EPOCH, leader_epoch=EPOCH + 1),
    ],
)
def test_a_snapshot_begins_anew_if_a_piece_does_not_fit(event: SnapshotAnswered) -> None:
    script = Script()
    begin_snapshot(script)
    script.tell(piece(0, b"abc", 5), event)
    effects = list(script.effects)
    script.waited()
    if isinstance(script.request, Connect):
        script.tell(Connected(18))
    effects += script.effects
    assert AbandonSnapshot() in effects
    assert script.sent().position.offset == 0


def test_a_throttled_daemon_waits() -> None:
    script = Script().follow()
    script.tell(answered(FIRST, high_watermark=1, throttle_ms=700))
    assert script.waited() == pytest.approx(0.7)
    script.tell(answered(high_watermark=1, throttle_ms=10**9))
    assert script.waited() == pytest.approx(30)


def test_the_leader_is_named_only_while_it_answers() -> None:
    script = Script().follow()
    assert script.machine.contact.leader is None
    script.tell(answered(FIRST, high_watermark=1))
    leader = (Address(HOST, 9093), EPOCH)
    assert script.machine.contact.leader == leader
    script.machine.contact.doubt_leader(Address("another", 1))
    assert script.machine.contact.leader == leader
    script.machine.contact.doubt_leader(leader[0])
    script.tell(answered(high_watermark=1))  # sent before
    assert script.machine.contact.leader is None
    script.tell(answered(high_watermark=1))
    assert script.machine.contact.leader == leader


def test_voters_are_asked_when_no_server_answers() -> None:
    """All endpoints of the cluster were replaced since the daemon began."""
    script = Script()
    script.machine.contact.route.add_nodes({3: Address("new", 9093)})
    script.tell(TimePassed())
    assert script.refuse(4) == [HOST, "controller-2", "new", HOST]


def test_the_number_of_remembered_controllers_is_bounded() -> None:
    script = Script()
    for number in range(3 * NODES_MAX):
        script.machine.contact.route.add_nodes({number: Address(f"voter-{number}", 1)})
    script.tell(TimePassed())
    assert len(set(script.refuse(4 * NODES_MAX))) == len(SERVERS) + NODES_MAX


def test_a_static_quorum_finds_an_address_by_node_id() -> None:
    """Old versions of Fetch name the leader without its address."""
    script = Script(servers=(Server("a", 1, node_id=4), Server("b", 2, node_id=LEADER)))
    script.tell(TimePassed(), Connected(16))
    script.tell(answered(error_code=ErrorCode.FENCED_LEADER_EPOCH, endpoints={}), TimePassed())
    assert script.request == Connect(Address("b", 2))
