"""The source against brokers in memory: what is passed on, saved, held back and waited for."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from operator import is_not
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.release_in_force import Evidence, judge_release
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.config.follow.settings import FollowSettings, Server, SourceKind
from authorizerd.daemon.sources import own_log_reader
from authorizerd.daemon.sources.brokers import listing_copy, machine
from authorizerd.daemon.sources.brokers.acknowledged import KEPT_SECONDS, Acknowledged
from authorizerd.daemon.sources.brokers.exchange import Exchange
from authorizerd.daemon.sources.brokers.listing_copy import ListingCopy
from authorizerd.daemon.sources.brokers.pauses import RETRY_SECONDS_MAX
from authorizerd.daemon.sources.brokers.release_probe import FORGOTTEN_SECONDS
from authorizerd.daemon.sources.brokers.source import BrokersSource
from authorizerd.daemon.sources.copy_checkpointer import CopyCheckpointer
from authorizerd.daemon.sources.freshness import Freshness
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.log_copy import LogCopy
from authorizerd.metadata.storage import PRIVATE_DISK
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.support.acl_messages import encode_listing, joined
from tests.support.acls import acl
from tests.support.scripted_brokers import CLUSTER_ID, ScriptedCluster, denied

T = TypeVar("T")

POLL = 5.0
STALE = 60.0
READ, WRITE = acl("User:a", "READ", topic="t"), acl("User:a", "WRITE", topic="t")
SETTINGS = FollowSettings(
    kind=SourceKind.BROKERS,
    servers=(Server("bootstrap", 1),),
    poll_ms=int(POLL * 1000),
    stale_max_ms=int(STALE * 1000),
    request_timeout_ms=3_000,
)
SERVING = replace(SETTINGS, serve_copy=True)
ODD = Acl(99, "n", 77, "User:a", "*", 55, 44)

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Follower:
    """A source with an applier, and what it has published so far."""

    def __init__(
        self,
        cluster: ScriptedCluster,
        folder: Path,
        settings: FollowSettings,
        bytes_between_checkpoints: int = 1 << 20,
    ) -> None:
        self.settings = settings
        self._feed, inbox = trio.open_memory_channel[Message](16)
        self.applier = RecordApplier(
            inbox,
            judge=lambda image: judge_release(image, Evidence.BROKERS),
            deadline=-math.inf,
            clock=trio.current_time,
        )
        self.status = SourceStatus(SourceKind.BROKERS, clock=trio.current_time)
        self.freshness = Freshness(
            self._feed.clone(), self.status, stale_max_ms=self.settings.stale_max_ms
        )
        write_mark(folder, CopyMark("brokers"), PRIVATE_DISK)
        log = LogCopy(folder, node_id=1, storage=PRIVATE_DISK, segment_bytes_max=1 << 30)
        self.log = log
        self.copy = ListingCopy(log, self.applier.applied, node_id=1, now_ms=lambda: 1)
        self.checkpointer = CopyCheckpointer(
            log,
            self.status,
            self.applier.applied,
            self.applier.cluster,
            is_complete=self.copy.is_complete,
            bytes_between=bytes_between_checkpoints,
        )
        self.source = BrokersSource(
            self.settings,
            self.copy,
            self.freshness,
            self.status,
            self.applier.applied,
            open_node=cluster.open_node,
            random=Random(1),
        )
        self.published: list[frozenset[Acl] | None] = []

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.applier.run)
            nursery.start_soon(self._record)
            nursery.start_soon(self.checkpointer.run)
            await self.source.run(self._feed)

    async def _record(self) -> None:
        self._note(None)
        while True:
            seen = self.applier.snapshot.newest
            self._note(seen)
            await self.applier.snapshot.wait_until(partial(is_not, seen))

    def _note(self, snapshot: AclSnapshot | None) -> None:
        state = None if snapshot is None else frozenset(snapshot.acls.values())
        if not self.published or state != self.published[-1]:
            self.published.append(state)

    @property
    def acls(self) -> set[Acl] | None:
        newest = self.applier.snapshot.newest
        return None if newest is None else set(newest.acls.values())

    @property
    def offset(self) -> int:
        newest = self.applier.applied.newest
        assert newest is not None
        return newest.offset

    @property
    def rules(self) -> ReleaseRules | None:
        """The rules of the state to decide by."""
        newest = self.applier.snapshot.newest
        return None if newest is None else newest.rules

    async def until(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait for any condition, in virtual time."""
        give_up = trio.current_time() + seconds
        while not holds():
            assert trio.current_time() < give_up
            await trio.sleep(0.05)


class Cluster(ScriptedCluster):
    """A cluster, and the folder in which its followers keep their copy."""

    def __init__(self, nursery: trio.Nursery, folder: Path) -> None:
        super().__init__(nursery)
        self._folder = folder

    def set(self, **fields: object) -> None:
        """Set attributes of every broker."""
        for broker in self.brokers.values():
            for name, value in fields.items():
                setattr(broker, name, value)

    @asynccontextmanager
    async def follow(
        self, settings: FollowSettings = SETTINGS, *, bytes_between: int = 1 << 20
    ) -> AsyncIterator[Follower]:
        """Run a follower until the block ends, then close its copy as a killed process would."""
        follower = Follower(self, self._folder, settings, bytes_between)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follower.run)
            yield follower
            nursery.cancel_scope.cancel()
        follower.log.close()

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[Follower]:
        """Run a follower; the block begins once it decides by the cluster's first ACL."""
        async with self.follow() as follower:
            await follower.until(lambda: follower.acls == {READ})
            yield follower


@pytest.fixture
async def cluster(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    """Return a cluster of two brokers with one ACL.

    Virtual time would pass while a thread works, so what threads do is done in place.
    """

    async def run_here(work: Callable[..., T], *args: object, **_: object) -> T:
        await trio.lowlevel.checkpoint()
        return work(*args)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_here)
    cluster = Cluster(nursery, tmp_path)
    cluster.change(READ)
    return cluster


async def test_acls_of_the_cluster_are_followed(cluster: Cluster) -> None:
    """Offsets grow only with changes. Unknown codes are kept. Nothing is published twice."""
    async with cluster.followed() as follower:
        first = follower.offset
        await trio.sleep(3 * POLL)
        assert follower.offset == first
        cluster.change(WRITE, ODD)
        await follower.until(lambda: follower.acls == {READ, WRITE, ODD})
        assert follower.offset > first
        cluster.change(removed=[READ])
        await follower.until(lambda: follower.acls == {WRITE, ODD})
        cluster.change(removed=[WRITE, ODD])
        await follower.until(lambda: follower.acls == set())
        assert follower.published == [
            None, {READ}, {READ, WRITE, ODD}, {WRITE, ODD}, frozenset()
        ]  # fmt: skip
        status = follower.status
        assert (status.cluster_id, status.leader_id in (1, 2)) == (CLUSTER_ID, True)
        assert status.high_watermark == status.read_offset == follower.source.high_watermark
        assert status.high_watermark == follower.offset


async def test_one_broker_is_asked_about_every_poll(cluster: Cluster) -> None:
    """The same connection is kept."""
    async with cluster.follow() as follower:
        await follower.until(lambda: follower.acls is not None)
        await trio.sleep(20 * POLL)
        counts = sorted(each.listings for each in cluster.brokers.values())
        assert counts[0] == 0
        assert 18 <= counts[1] <= 23
        assert len(cluster.opened) == 2 + len(cluster.brokers), "one more each, for the releases"


async def test_equal_answer_is_undecoded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A different throttle time makes no difference."""
    async with cluster.followed() as follower:

        def fail(*_: object) -> None:
            raise AssertionError("decoded")

        monkeypatch.setattr("authorizerd.daemon.sources.brokers.exchange.read_listing", fail)
        cluster.set(throttle_ms=1)
        contact = follower.status.contact_time
        await trio.sleep(3 * POLL)
        assert follower.status.contact_time != contact


async def test_copy_is_held_back_while_no_broker_is_current(cluster: Cluster) -> None:
    """A broker that has the copy's state, but not what is committed, does not count as contact."""
    async with cluster.followed():
        pass
    cluster.change(WRITE, lagging=(1, 2))
    async with cluster.follow() as follower:
        await trio.sleep(STALE / 2)
        assert follower.acls is None
        assert follower.status.contact_time is None
        cluster.set(acls={READ, WRITE}, log_end=cluster.high_watermark)
        await follower.until(lambda: follower.acls == {READ, WRITE})


async def test_restart_continues_from_the_copy(cluster: Cluster) -> None:
    """Only the difference is appended. Nothing is published before the first listing."""
    async with cluster.followed() as follower:
        offset = follower.offset
    cluster.change(WRITE)
    cluster.set(is_down=True)
    async with cluster.follow() as follower:
        await trio.sleep(10)
        assert follower.offset == offset
        assert follower.published == [None]
        cluster.set(is_down=False)
        await follower.until(lambda: follower.acls == {READ, WRITE})
        assert follower.published == [None, {READ, WRITE}]
        assert follower.offset == offset + 2  # the mark and the ACL


async def test_copy_is_served_if_it_is_wanted(cluster: Cluster) -> None:
    """A copy without any accepted listing is never served."""
    cluster.set(is_down=True)
    async with cluster.follow(SERVING) as follower:
        await trio.sleep(10)
        assert follower.acls is None
        cluster.set(is_down=False)
        await follower.until(lambda: follower.acls == {READ})
    cluster.set(is_down=True)
    async with cluster.follow(SERVING) as follower:
        await follower.until(lambda: follower.acls == {READ}, 0.5)
        await follower.until(lambda: follower.acls is None, STALE + 1)


async def test_empty_listing_counts_as_a_state(cluster: Cluster) -> None:
    cluster.change(removed=[READ])
    async with cluster.follow() as follower:
        await follower.until(lambda: follower.acls == set())
    cluster.set(is_down=True)
    async with cluster.follow(SERVING) as follower:
        await follower.until(lambda: follower.acls == set(), 0.5)


async def test_failover_publishes_nothing_older(cluster: Cluster) -> None:
    """The other broker lags until it has what was published; decisions go on meanwhile."""
    async with cluster.followed() as follower:
        pinned = follower.status.leader_id
        other = 3 - pinned
        cluster.change(WRITE, removed=[READ], lagging=[other])
        await follower.until(lambda: follower.acls == {WRITE})
        cluster.brokers[pinned].is_silent = True
        await trio.sleep(20)
        assert follower.acls == {WRITE}
        cluster.brokers[other].acls = {WRITE}
        cluster.brokers[other].log_end = cluster.high_watermark
        cluster.change(ODD)
        await follower.until(lambda: follower.acls == {WRITE, ODD}, 60)
        assert follower.published == [None, {READ}, {WRITE}, {WRITE, ODD}]
        assert follower.status.leader_id == other
        assert follower.status.errors["connection"] >= 1


async def test_all_brokers_stopped_are_stale_then_not_ready_then_back(cluster: Cluster) -> None:
    async with cluster.followed() as follower:
        cluster.set(is_down=True)
        await trio.sleep(STALE - 2 * POLL)
        assert follower.acls == {READ}
        await trio.sleep(3 * POLL)
        assert follower.acls is None
        assert follower.status.is_stale
        cluster.set(is_down=False)
        await follower.until(lambda: follower.acls == {READ}, 60)
        assert not follower.status.is_stale


async def test_decisions_do_not_resume_by_a_listing_from_before_a_hang(cluster: Cluster) -> None:
    """Nothing has confirmed the state since that listing. A new process holds its copy as well."""
    append: Any = ListingCopy.append

    async def hang(*arguments: object) -> None:
        cluster.set(is_down=True)
        await trio.sleep(STALE + 10)
        await append(*arguments)

    async with cluster.followed() as follower:
        with patch.object(ListingCopy, "append", hang):
            cluster.change(WRITE)
            await trio.sleep(STALE + 30)
        assert follower.acls is None
        cluster.change(ODD)
    cluster.set(is_down=False)
    async with cluster.follow() as follower:
        with patch.object(ListingCopy, "append", hang):
            await trio.sleep(STALE + 30)
        assert follower.published == [None]
        cluster.set(is_down=False)
        await follower.until(lambda: follower.acls == {READ, WRITE, ODD})


@pytest.mark.parametrize("cut", [0, 3, 20, 40])
async def test_cut_listing_changes_nothing(cluster: Cluster, cut: int) -> None:
    async with cluster.followed() as follower:
        cluster.change(WRITE, ODD)
        cluster.set(cut=cut)
        await follower.until(lambda: follower.acls == {READ, WRITE, ODD}, 60)
        assert follower.published == [None, {READ}, {READ, WRITE, ODD}]
        assert follower.status.errors["connection"] >= 1


async def test_garbage_changes_nothing(cluster: Cluster) -> None:
    """A listing that is cut inside its frame is garbage as a whole."""
    encoded = joined(encode_listing(3, [WRITE, ODD]))
    async with cluster.followed() as follower:
        for garbage in (encoded[:-10], b"", b"\xff" * 40, encoded + b"\0"):
            cluster.set(garbage=garbage)
            await trio.sleep(4 * POLL)
        assert follower.published == [None, {READ}]
        assert follower.status.errors["connection"] >= 4


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (denied(), "--operation Describe"),
        (ApiError(ErrorCode.SECURITY_DISABLED), "authorizer.class.name"),
        (ApiError(4711, "?"), "error 4711"),
    ],
)
async def test_errors_name_the_remedy_and_are_retried(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, error: ApiError, remedy: str
) -> None:
    cluster.set(error=error)
    async with cluster.follow() as follower:
        await trio.sleep(30)
        assert follower.acls is None
        assert remedy in caplog.text
        assert follower.status.errors[error.name] >= 2
        assert len(caplog.messages) < 12
        cluster.set(error=None)
        await follower.until(lambda: follower.acls == {READ}, 60)


@pytest.mark.parametrize("cluster_id", ["\u20ac", "a\nnode.id=7", ""])
async def test_server_without_a_real_cluster_id_is_left(cluster: Cluster, cluster_id: str) -> None:
    cluster.cluster_id = cluster_id
    async with cluster.follow() as follower:
        await trio.sleep(4 * POLL)
        assert follower.acls is None
        cluster.cluster_id = CLUSTER_ID
        await follower.until(lambda: follower.acls == {READ}, 60)


@pytest.mark.parametrize("missing", [ApiKey.METADATA, ApiKey.DESCRIBE_ACLS])
async def test_server_that_lacks_an_api_is_left(cluster: Cluster, missing: ApiKey) -> None:
    """A controller, for example, does not serve Metadata."""
    cluster.unserved.add(missing)
    async with cluster.follow() as follower:
        await trio.sleep(4 * POLL)
        assert follower.acls is None
        assert follower.status.errors["connection"] >= 1
        cluster.unserved.clear()
        await follower.until(lambda: follower.acls == {READ}, 60)


async def test_missing_right_is_logged_once_though_the_brokers_text_changes(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's text names the connection and the session."""
    async with cluster.follow():
        for second in range(30):
            for broker in cluster.brokers.values():
                text = f"Request(session=Session@{second}) needs DESCRIBE permission."
                broker.error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)
            await trio.sleep(1)
        assert 1 <= len([each for each in caplog.messages if "lacks DESCRIBE" in each]) <= 4
        assert "Session@" not in caplog.text


async def test_controller_in_place_of_a_broker_is_named_with_the_key(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.unserved.add(ApiKey.METADATA)
    async with cluster.follow() as follower:
        await follower.until(lambda: "retrying" in caplog.text)
        assert caplog.text.rstrip().endswith(
            "expected a broker's listener, found a controller's; "
            "name brokers in authorizerd.source.bootstrap.servers"
        )


@pytest.mark.parametrize("is_pinned", [False, True])
async def test_lag_is_logged_once_though_offsets_grow(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, is_pinned: bool
) -> None:
    """The listings of a broker that is followed already are accepted, but do not count."""
    async with cluster.follow() as follower:
        if is_pinned:
            await follower.until(lambda: follower.acls == {READ})
        for _ in range(200):
            cluster.change(WRITE, lagging=(1, 2))
            await trio.sleep(2)
            for broker in cluster.brokers.values():
                broker.log_end += 1 if cluster.high_watermark % 4 == 0 else 0
        assert 1 <= len([each for each in caplog.messages if "retrying" in each]) <= 3


async def test_another_cluster_stops_decisions(cluster: Cluster) -> None:
    async with cluster.followed():
        pass
    cluster.cluster_id = "another"
    async with cluster.follow(SERVING) as follower:
        await follower.until(lambda: follower.status.fault != "")
        assert "expected cluster followed-cluster, found another" in follower.status.fault
        await follower.until(lambda: follower.acls is None)
        await trio.sleep(3 * POLL)
        assert follower.acls is None
    async with cluster.follow(replace(SERVING, cluster_id="another")) as follower:
        await follower.until(lambda: "reset-copy" in follower.status.fault)
        await follower.until(lambda: follower.acls is None)


async def test_barrier_waits_for_the_listing_with_its_changes(cluster: Cluster) -> None:
    """It polls at once. Decisions have the changes when it returns."""
    async with cluster.followed() as follower:
        await trio.sleep(1)
        cluster.change(WRITE, removed=[READ])
        started = trio.current_time()
        assert await follower.source.confirm([WRITE], [AclFilter(operation=READ.operation)])
        assert follower.acls == {WRITE}
        assert trio.current_time() - started < 0.5


async def test_barrier_without_changes_waits_for_a_later_listing(cluster: Cluster) -> None:
    """The answer that is under way may lack what was committed before the call."""
    ask = Exchange.ask_listing
    asked, may_answer = trio.Event(), trio.Event()

    async def answer_late(exchange: Exchange) -> object:
        answer = await ask(exchange)
        asked.set()
        await may_answer.wait()
        return answer

    async with cluster.followed() as follower, trio.open_nursery() as nursery:
        with patch.object(Exchange, "ask_listing", answer_late):
            await asked.wait()
        cluster.change(WRITE)

        async def wait() -> None:
            assert await follower.source.confirm([], [])
            assert follower.acls == {READ, WRITE}
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait)
        await trio.sleep(1)
        may_answer.set()
        with trio.fail_after(5):
            await trio.sleep_forever()


async def test_barrier_fails_after_a_minute(cluster: Cluster, tmp_path: Path) -> None:
    cluster.unserved.add(ApiKey.DESCRIBE_QUORUM)
    async with cluster.follow() as follower:
        assert not await Follower(cluster, tmp_path, SETTINGS).source.confirm([], [])
        await follower.until(lambda: follower.acls == {READ})
        started = trio.current_time()
        assert not await follower.source.confirm([WRITE], [])
        assert trio.current_time() - started == pytest.approx(KEPT_SECONDS)


@pytest.mark.parametrize("has_quorum", [True, False])
async def test_old_changes_are_forgotten_while_every_listing_fails(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, has_quorum: bool
) -> None:
    """A new broker still needs the high watermark that includes them, until one is accepted."""
    acknowledged = Acknowledged()
    monkeypatch.setattr(machine, "Acknowledged", lambda: acknowledged)
    if not has_quorum:
        cluster.unserved.add(ApiKey.DESCRIBE_QUORUM)
    async with cluster.followed() as follower:
        cluster.set(error=denied())
        for _ in range(100):
            cluster.change(WRITE)
            with trio.move_on_after(1):
                assert await follower.source.confirm([WRITE], [])
        await trio.sleep(KEPT_SECONDS + 2 * RETRY_SECONDS_MAX)
        assert len(acknowledged) == 0
        assert acknowledged.high_watermark == (cluster.high_watermark if has_quorum else -1)
        cluster.set(error=None)
        await follower.until(lambda: follower.acls == {READ, WRITE}, 60)
        assert acknowledged.high_watermark == -1


async def test_acknowledged_change_is_in_the_first_listing_after_failover(cluster: Cluster) -> None:
    """Here the quorum cannot be asked, and nobody waits at the barrier any more."""
    cluster.unserved.add(ApiKey.DESCRIBE_QUORUM)
    async with cluster.followed() as follower:
        pinned = follower.status.leader_id
        other = cluster.brokers[3 - pinned]
        cluster.change(WRITE, lagging=[pinned, 3 - pinned])
        with trio.move_on_after(1):
            assert await follower.source.confirm([WRITE], [])
        cluster.brokers[pinned].is_down = True
        other.acls = set()  # far behind
        await trio.sleep(4 * POLL)
        assert follower.published == [None, {READ}]
        other.acls = {READ, WRITE}
        await follower.until(lambda: follower.acls == {READ, WRITE}, 30)
        assert follower.published == [None, {READ}, {READ, WRITE}]


async def test_large_difference_becomes_visible_at_once(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes several batches and messages. A copy that ends within them does not count."""
    monkeypatch.setattr(listing_copy, "RECORDS_PER_BATCH", 10)
    monkeypatch.setattr(own_log_reader, "CHANGES_PER_PART", 10)
    many = {acl(topic=f"t{number}") for number in range(95)}
    async with cluster.followed() as follower:
        cluster.change(*many, removed=[READ])
        await follower.until(lambda: follower.acls == many)
        assert follower.published == [None, {READ}, many]
        offset = follower.offset
    (segment,) = (tmp_path / "__cluster_metadata-0").glob("*.log")
    whole = segment.read_bytes()
    for end in (len(whole) - 1, len(whole) - 2_000):
        segment.write_bytes(whole[:end])
        cluster.set(is_down=True)
        async with cluster.follow(SERVING) as follower:
            await follower.until(lambda: follower.acls == {READ}, 1)
            assert follower.offset < offset
            cluster.set(is_down=False)
            await follower.until(lambda: follower.acls == many)
            assert follower.published == [None, {READ}, many]


async def test_checkpoint_replaces_the_log(cluster: Cluster, tmp_path: Path) -> None:
    """A restart reads the same ACLs, and the high watermark, from the checkpoint."""
    folder = tmp_path / "__cluster_metadata-0"
    acls = {READ}
    async with cluster.follow(bytes_between=10_000) as follower:
        for number in range(6):
            more = {acl(topic=f"{number}-{n}") for n in range(50)}
            acls |= more
            cluster.change(*more)
            await follower.until(lambda: follower.acls == acls)  # noqa: B023 - awaited here
        await follower.until(lambda: follower.checkpointer.statistics.written > 0)
        await follower.until(lambda: any(folder.glob("*.checkpoint")))
        offset, mark = follower.offset, follower.copy.high_watermark
    async with cluster.follow() as follower:
        await follower.until(lambda: follower.acls == acls)
        # The brokers' releases are found out again.
        assert (follower.offset, follower.copy.high_watermark) == (offset + 1, mark)


async def test_files_of_the_copy_are_private(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.followed():
        pass
    modes = file_modes(tmp_path)
    assert len(modes) > 2
    assert set(modes) == {0o600}


def file_modes(folder: Path) -> list[int]:
    return [each.stat().st_mode & 0o777 for each in folder.rglob("*") if each.is_file()]


async def test_the_rules_follow_an_upgrade_of_the_brokers(cluster: Cluster) -> None:
    """No ACL changes meanwhile. While a broker restarts, its release is unknown."""
    one, two = cluster.brokers.values()
    async with cluster.follow() as follower:
        await follower.until(lambda: follower.rules == RULES_4_3)
        two.is_down, two.level = True, 33
        await follower.until(lambda: follower.rules == ANY_RELEASE)
        assert follower.applier.release.newest.reason == (
            "broker 1 runs 4.3; broker 2 runs an unknown release"
        )
        two.is_down = False
        await trio.sleep(3 * POLL)
        assert follower.rules == ANY_RELEASE
        assert follower.applier.release.newest.reason == "broker 1 runs 4.3; broker 2 runs 4.4"
        one.is_down, one.level = True, 33
        await trio.sleep(3 * POLL)
        assert follower.rules == ANY_RELEASE
        one.is_down = False
        await follower.until(lambda: follower.rules == RULES_4_4)


async def test_first_decision_knows_the_releases(cluster: Cluster) -> None:
    """So it is with a served copy: the first state has them, not a later one."""
    for settings in (SETTINGS, replace(SETTINGS, serve_copy=True)):
        async with cluster.follow(settings) as follower:
            first = await follower.applier.snapshot.wait_until(lambda newest: newest is not None)
            assert first is not None
            assert first.rules == RULES_4_3


async def test_broker_that_does_not_answer_is_unknown(cluster: Cluster) -> None:
    """Decisions wait 10 s for it. A finalized level that 4.3 lacks settles its release."""
    one, two = cluster.brokers.values()
    one.level = 33
    two.is_silent = True
    async with cluster.follow() as follower:
        await follower.until(lambda: follower.rules == ANY_RELEASE, 60)
        cluster.finalized = 32
        cluster.high_watermark += 1
        await follower.until(lambda: follower.rules == RULES_4_4)


async def test_broker_that_left_counts_for_a_while(cluster: Cluster) -> None:
    """It may be about to return with another release."""
    async with cluster.follow() as follower:
        await follower.until(lambda: follower.rules == RULES_4_3)
        cluster.brokers.pop(2).is_down = True
        await follower.until(lambda: follower.rules == ANY_RELEASE)
        await follower.until(lambda: follower.rules == RULES_4_3, FORGOTTEN_SECONDS + 30)


async def test_newer_release_is_reported_at_once(cluster: Cluster) -> None:
    async with cluster.follow() as follower:
        await follower.until(lambda: follower.rules == RULES_4_3)
        cluster.set(level=34)
        await follower.until(lambda: follower.rules == ANY_RELEASE)
        assert follower.applier.release.newest.newer == (
            "brokers 1, 2 run a release newer than 4.4, which was not tested"
        )
