"""The grants of a cluster: what is read before a request, and what keeps it from being sent."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from authorizerd.acl.errors import StateMovedError
from authorizerd.acl.grants.model import make_grant_note
from authorizerd.acl.notes import is_note, name_note
from authorizerd.acl.steps import finish
from authorizerd.actors.grant_keeper import GrantAccessError, GrantKeeper
from authorizerd.daemon.sources.cluster_grants import FRESH_SECONDS, ClusterGrants
from authorizerd.kafka_client.connection import Call
from authorizerd.kafka_client.errors import ConnectionFailedError, RequestFailedError
from authorizerd.kafka_client.quorum_calls import QuorumDescription
from authorizerd.protocol.kafka.acls import (
    CreateAclsAnswer,
    DeleteAclsAnswer,
    FilterResult,
    MatchingAcl,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.messages import encode_response
from tests.support import grant_world
from tests.support.grant_world import POOL, Keeper, Node, World

ACL = POOL[0]
NOTE = name_note("authorizerd-other?a=1")
"""A note of any kind."""
FORBIDDEN = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Cluster:
    """A world with one keeper, whose requests wait ``delay`` seconds for a connection.

    The machine was suspended for ``asleep`` seconds.
    """

    def __init__(self) -> None:
        self.world = World(0)
        self.world.is_quiet = True
        self.node: object = Node(Keeper("sync", self.world, knows_ids=False), "a", 0.0)
        self.delay = self.asleep = 0.0
        self.answers: Callable[[Call[Any]], Any] = self._ask
        self.grants = ClusterGrants(self._request, lambda: self.node, self.boot_time)

    def boot_time(self) -> float:
        return trio.current_time() + self.asleep

    async def _request(self, call: Call[Any], /) -> Any:  # noqa: ANN401 - of the call
        await trio.sleep(self.delay)
        return await self.answers(call)

    async def _ask(self, call: Call[Any]) -> Any:  # noqa: ANN401 - of the call
        assert isinstance(self.node, Node)
        return await self.node.request(call, 0)

    def fail_with(self, error: Exception) -> None:
        async def fail(call: Call[Any]) -> None:
            await trio.lowlevel.checkpoint()
            raise error

        self.answers = fail

    def answer_with(self, answer: object) -> None:
        async def give(call: Call[Any]) -> object:
            await trio.lowlevel.checkpoint()
            return answer

        self.answers = give


@pytest.fixture
async def cluster(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(grant_world, "DELAY_SECONDS_MAX", 0)
    return Cluster()


async def test_a_state_has_the_notes_and_the_acls_that_were_asked_for(cluster: Cluster) -> None:
    """An ACL of the notes' principal that is no note is not one."""
    other = replace(NOTE, resource_name="authorizerd-grant?id=2", host="10.0.0.1")
    cluster.world.change(create=[ACL, NOTE])
    cluster.world.changes[-1][1][other] = b"other"
    state = await cluster.grants.confirm_state([ACL, POOL[1]])
    assert {*state.names} == {NOTE.resource_name}
    assert [state.has_acl(each) for each in (ACL, POOL[1], NOTE)] == [True, False, True]
    assert state.find_id is None


@pytest.mark.parametrize(("delay", "is_sent"), [(0.5, True), (1.5, False)])
async def test_a_request_is_not_sent_if_the_state_is_too_old(
    cluster: Cluster, delay: float, *, is_sent: bool
) -> None:
    """A connection may take long to open, after the state was confirmed."""
    cluster.world.change(create=[ACL, NOTE])
    state = await cluster.grants.confirm_state([ACL])
    cluster.delay = delay * FRESH_SECONDS
    if is_sent:
        assert [*await cluster.grants.delete([ACL, NOTE], state)] == ["", ""]
    else:
        with pytest.raises(StateMovedError, match="too long ago"):
            await cluster.grants.delete([ACL, NOTE], state)
        with pytest.raises(StateMovedError, match="too long ago"):
            await cluster.grants.create([POOL[1]], state)
        assert [*await cluster.grants.delete([NOTE], None)] == [""]
    assert (ACL in cluster.world.acls) != is_sent


async def test_a_request_is_not_sent_after_a_suspend(cluster: Cluster) -> None:
    cluster.world.change(create=[ACL, NOTE])
    state = await cluster.grants.confirm_state([ACL])
    cluster.asleep = 3600
    with pytest.raises(StateMovedError, match="too long ago"):
        await cluster.grants.delete([ACL, NOTE], state)
    assert ACL in cluster.world.acls


def keep_grants(cluster: Cluster, count: int, *, begins: bool = False) -> GrantKeeper:
    """Return a keeper of grants that all begin, or end, now; a request takes ``delay`` seconds."""
    world, acls = cluster.world, [replace(ACL, resource_name=f"t{n}") for n in range(count)]
    end_ms = world.now_ms + 1_000_000 * begins
    notes = [make_grant_note(world.new_grant(acl, 0, end_ms, is_waiting=begins)) for acl in acls]
    world.change(create=notes if begins else [*acls, *notes])
    return GrantKeeper(cluster.grants, lambda: world.controller_ms, cluster.boot_time)


@pytest.mark.parametrize(("delay", "count", "begins"), [
    (0.025, 100, False), (0.025, 100, True), (0.6, 2, False),
])  # fmt: skip
async def test_grants_begin_and_end_together_although_each_answer_takes_long(
    cluster: Cluster, delay: float, count: int, *, begins: bool
) -> None:
    """Their ACLs are listed one by one, so a request about all of them would be too late."""
    keeper = keep_grants(cluster, count, begins=begins)
    cluster.delay = delay
    with trio.move_on_after(50):
        await keeper.run()
    assert sum(not is_note(acl) for acl in cluster.world.acls) == count * begins
    assert cluster.world.findings == []
    done = keeper.statistics.begun if begins else keeper.statistics.ended
    assert (done, keeper.statistics.problem) == (count, "")


async def test_a_cluster_that_always_answers_too_late_is_named(cluster: Cluster) -> None:
    keeper = keep_grants(cluster, 1)
    cluster.delay = 0.9 * FRESH_SECONDS
    with trio.move_on_after(200):
        await keeper.run()
    assert "too long ago" in keeper.statistics.problem
    assert keeper.statistics.failures > 0


async def test_two_listings_from_two_connections_are_no_state(cluster: Cluster) -> None:
    """The second broker may lack the ACL of a note that the first one has shown."""
    cluster.world.change(create=[ACL, NOTE])

    async def ask(call: Call[Any]) -> object:
        answer = await cluster._ask(call)
        cluster.node = Node(Keeper("sync", cluster.world, knows_ids=False), "b", 0.0)
        return answer

    cluster.answers = ask
    with pytest.raises(StateMovedError, match="two connections"):
        await cluster.grants.confirm_state([ACL])


@pytest.mark.parametrize("error", [
    ConnectionFailedError("gone"),
    RequestFailedError(ApiError(ErrorCode.UNSUPPORTED_VERSION)),
])  # fmt: skip
async def test_a_cluster_that_cannot_be_asked_holds_the_keeper(
    cluster: Cluster, error: Exception
) -> None:
    cluster.fail_with(error)
    for ask in (cluster.grants.read_state, cluster.grants.read_clock_ms):
        with pytest.raises(GrantAccessError):
            await ask()


@pytest.mark.parametrize(
    "answer",
    [
        FORBIDDEN,
        QuorumDescription(
            leader_id=1, leader_epoch=1, high_watermark=1, voters=frozenset({1}), endpoints={},
            log_ends={},
        ),
    ],
    ids=["forbidden", "without times"],
)  # fmt: skip
async def test_a_clock_that_cannot_be_read_is_an_error(cluster: Cluster, answer: object) -> None:
    cluster.answer_with(answer)
    with pytest.raises(GrantAccessError, match="clock cannot be read"):
        await cluster.grants.read_clock_ms()


async def test_the_clock_is_the_controllers(cluster: Cluster) -> None:
    cluster.world.offsets_ms = [7_000, 0, 0]
    before = cluster.world.controller_ms
    read = await cluster.grants.read_clock_ms()
    assert read is not None
    assert before <= read <= cluster.world.controller_ms


@pytest.mark.parametrize(
    ("key", "answer", "errors"),
    [
        (ApiKey.CREATE_ACLS, CreateAclsAnswer(results=[None, FORBIDDEN]), [False, True]),
        (
            ApiKey.DELETE_ACLS,
            DeleteAclsAnswer(
                results=[
                    FilterResult(error=FORBIDDEN),
                    FilterResult(matches=[MatchingAcl(acl=ACL, error=FORBIDDEN)]),
                ]
            ),
            [True, True],
        ),
    ],
)
async def test_each_refused_acl_has_its_error(
    cluster: Cluster,
    key: ApiKey,
    answer: object,
    errors: list[bool],
) -> None:
    state = await cluster.grants.confirm_state([])

    async def give(call: Call[Any]) -> object:
        await trio.lowlevel.checkpoint()
        assert call.api_key is key
        return call.decode(3, b"".join(map(bytes, finish(encode_response(key, 3, answer)))))

    cluster.answers = give
    change = cluster.grants.create if key is ApiKey.CREATE_ACLS else cluster.grants.delete
    found = await change([ACL, NOTE], state)
    assert [bool(each) for each in found] == errors
    assert all("it needs ALTER on the cluster" in each for each in found if each)
