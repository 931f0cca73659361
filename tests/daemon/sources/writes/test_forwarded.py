"""Changes of a daemon that follows a cluster: what is sent, repeated, acknowledged and reported."""

import re
from collections.abc import Callable

import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.model import AclFilter
from authorizerd.actors.acl_journal import AclJournal
from authorizerd.actors.errors import RejectedUpdateError, UpdateRefusedError
from authorizerd.config.follow.settings import LogIn, SourceKind, Writes
from authorizerd.daemon.sources.remedies import missing_alter
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_cluster import HANG_UP, SILENCE
from tests.daemon.sources.writes.acl_cluster import (
    ALICE,
    CALLER,
    FIRST,
    HOST,
    SECOND,
    TIMEOUT_MS,
    AclCluster,
    Follower,
    results,
)
from tests.support.acls import acl, exact_filter

ONE = acl("User:a", "READ", topic="one")
TWO = acl("User:b", "READ", topic="two")
NO_COLON = acl("nobody", "READ", topic="one")
ANYTHING = AclFilter()
OF_ONE = AclFilter(resource_name="one")

pytestmark = pytest.mark.usefixtures("autojump_clock")
each_mode = pytest.mark.parametrize("writes", [Writes.AS_SELF, Writes.FORWARD])


@pytest.fixture
async def cluster(nursery: trio.Nursery) -> AclCluster:
    return AclCluster(nursery)


def rejected(error: object, code: ErrorCode) -> str:
    """Return the text of the error of a change that was rejected with this code."""
    assert isinstance(error, RejectedUpdateError)
    assert error.code == code
    return str(error)


def unknown(error: object) -> str:
    """Return the text of an error that says that the change may still apply."""
    text = rejected(error, ErrorCode.REQUEST_TIMED_OUT)
    assert "may still apply" in text
    return text


@each_mode
async def test_items_keep_the_clusters_results(cluster: AclCluster, writes: Writes) -> None:
    """A change is visible here, and in every worker, before it is acknowledged."""
    follower = await cluster.follow(writes=writes)
    created = await follower.create(ONE, NO_COLON, TWO, ONE)
    text = rejected(created[1], ErrorCode.INVALID_REQUEST)
    assert text.startswith("Could not parse principal from `nobody`")
    assert [created[0], *created[2:]] == [None] * 3
    assert follower.acls == cluster.acls == {ONE, TWO}
    invalid = AclFilter(operation=99)
    removed, failed, nothing = await follower.delete(
        OF_ONE, invalid, AclFilter(resource_name="three")
    )
    assert (removed, nothing) == ({ONE}, set())
    assert (failed.code, str(failed)) == (ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    assert follower.acls == {TWO}
    assert follower.workers == 2
    assert len(cluster.forwarded) == (2 if writes is Writes.FORWARD else 0)
    assert follower.confirmed == [((ONE, TWO, ONE), ()), ((), (exact_filter(ONE),))]
    assert follower.updates.statistics.results == {"answered": 2}
    assert follower.updates.statistics.requests_waiting == 0


async def test_forwarded_request_names_the_caller(cluster: AclCluster) -> None:
    """Only principal and host count; a client id is passed on as it is."""
    follower = await cluster.follow(writes=Writes.FORWARD)
    await follower.create(ONE)
    (forwarded,) = cluster.forwarded
    assert (forwarded.principal, forwarded.host) == (ALICE, HOST)
    assert forwarded.request.client_id == CALLER.client_id


async def test_nothing_is_acknowledged_before_it_is_read(cluster: AclCluster) -> None:
    follower = await cluster.follow()
    follower.may_read = trio.Event()
    (created,) = follower.updates.create([ONE], CALLER)
    with trio.move_on_after(0.1):
        await created.wait_until_done()
    assert (created.is_done, cluster.acls, follower.acls) == (False, {ONE}, set())
    follower.may_read.set()
    await created
    assert follower.acls == {ONE}


async def test_failed_items_need_no_confirmation(cluster: AclCluster) -> None:
    follower = await cluster.follow()
    follower.may_read = trio.Event()
    (error,) = await follower.create(NO_COLON)
    assert isinstance(error, RejectedUpdateError)
    assert follower.confirmed == []


@each_mode
async def test_change_read_too_late_is_reported(cluster: AclCluster, writes: Writes) -> None:
    """The answer comes before the caller's own time limit. Failed items keep their errors."""
    follower = await cluster.follow(writes=writes)
    follower.may_read = trio.Event()
    with trio.fail_after(TIMEOUT_MS / 1000):
        error, invalid = await follower.create(ONE, NO_COLON)
    assert "has made the change" in rejected(error, ErrorCode.REQUEST_TIMED_OUT)
    rejected(invalid, ErrorCode.INVALID_REQUEST)
    assert follower.updates.statistics.results == {"unread": 1}


@pytest.mark.parametrize("is_cut", [False, True])
async def test_unconfirmable_change_is_reported_at_once(cluster: AclCluster, is_cut: bool) -> None:
    """For example if too many changes wait for a listing of a broker."""
    cluster.add(FIRST, cluster.apply_and_hang_up if is_cut else cluster.apply)
    follower = await cluster.follow(kind=SourceKind.BROKERS)
    follower.can_read = False
    (error,) = await follower.create(ONE)
    rejected(error, ErrorCode.REQUEST_TIMED_OUT)
    assert follower.updates.statistics.results == {"unknown" if is_cut else "unread": 1}


# What is sent again: only what was not applied.


@each_mode
async def test_change_is_sent_to_the_next_live_node(cluster: AclCluster, writes: Writes) -> None:
    cluster.add(SECOND)
    follower = await cluster.follow(FIRST, SECOND, writes=writes)
    assert await follower.create(ONE) == [None]
    assert follower.lost == [FIRST]


async def test_change_waits_for_a_leader(cluster: AclCluster) -> None:
    follower = await cluster.follow(None)
    (created,) = follower.updates.create([ONE], CALLER)
    await trio.sleep(TIMEOUT_MS / 2000)
    assert not created.is_done
    follower.leaders = [FIRST]
    await created
    assert follower.acls == {ONE}


@each_mode
async def test_right_is_checked_again_before_a_send(cluster: AclCluster, writes: Writes) -> None:
    """A change may wait long for a leader. Meanwhile, its caller may lose the right."""
    first = cluster.add(FIRST)
    follower = await cluster.follow(None, writes=writes)
    completions = follower.updates.create([ONE], CALLER)
    await trio.sleep(TIMEOUT_MS / 2000)
    follower.has_right, follower.leaders = False, [FIRST]
    (error,) = await results(completions)
    assert "lost the right" in rejected(error, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert {each.api_key for each in first.asked} <= {ApiKey.API_VERSIONS}
    assert follower.updates.statistics.results == {"denied": 1}


@each_mode
async def test_nothing_is_sent_while_right_is_unknown(cluster: AclCluster, writes: Writes) -> None:
    first = cluster.add(FIRST)
    follower = await cluster.follow(writes=writes)
    follower.has_right = None
    completions = follower.updates.create([ONE], CALLER)
    await trio.sleep(TIMEOUT_MS / 2000)
    assert {each.api_key for each in first.asked} == {ApiKey.API_VERSIONS}
    follower.has_right = True
    assert await results(completions) == [None]
    assert follower.acls == {ONE}


@each_mode
@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.AUTHORIZER_NOT_READY])
async def test_refusal_is_retried(cluster: AclCluster, writes: Writes, code: ErrorCode) -> None:
    """A node that is no longer the active controller is reported; one that is not ready is not."""
    is_moved = code is ErrorCode.NOT_CONTROLLER
    first = cluster.add(FIRST, *(2 * [cluster.fail(code)]))
    second = cluster.add(SECOND, cluster.fail(code))
    cluster.create([TWO])
    follower = await cluster.follow(FIRST, SECOND, writes=writes)
    assert await follower.create(ONE) == [None]
    assert await follower.delete(ANYTHING) == [{ONE, TWO}]
    assert follower.lost == ([FIRST, SECOND] if is_moved else [])
    assert (len(second.asked) > 1) is is_moved
    assert len(first.asked) == (2 if is_moved else 5)
    assert follower.updates.statistics.results == {"answered": 2}


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.AUTHORIZER_NOT_READY])
async def test_refused_change_is_given_up_in_time(cluster: AclCluster, code: ErrorCode) -> None:
    cluster.add(FIRST, *(100 * [cluster.fail(code)]))
    follower = await cluster.follow()
    with trio.fail_after(TIMEOUT_MS / 1000):
        (error,) = await follower.create(ONE)
    assert isinstance(error, UpdateRefusedError)
    assert "was not sent within the time limit" in str(error)
    assert cluster.acls == set()
    assert follower.updates.statistics.results == {"not_sent": 1}


@pytest.mark.parametrize("is_deleted_since", [False, True])
async def test_creation_that_a_former_controller_committed_is_not_repeated(
    cluster: AclCluster, *, is_deleted_since: bool
) -> None:
    """It answers NOT_CONTROLLER, although its change is committed."""
    cluster.add(
        FIRST, cluster.apply_lose_and_resign if is_deleted_since else cluster.apply_and_resign
    )
    second = cluster.add(SECOND)
    follower = await cluster.follow(FIRST, SECOND)
    assert await follower.create(ONE) == [None]
    assert second.asked == []
    assert cluster.acls == (set() if is_deleted_since else {ONE})


async def test_creation_is_not_repeated_once_changes_left_the_journal(cluster: AclCluster) -> None:
    cluster.journal = AclJournal(0)
    cluster.journal.begin(0, "")
    cluster.add(FIRST, cluster.apply_lose_and_resign)
    second = cluster.add(SECOND)
    follower = await cluster.follow(FIRST, SECOND)
    (error,) = await follower.create(ONE)
    assert "The ACL is not visible" in unknown(error)
    assert second.asked == []


async def test_deletion_by_a_former_controller_is_not_repeated(cluster: AclCluster) -> None:
    """Meanwhile another writer may have created the ACL again."""
    cluster.create([ONE, TWO])

    def resign(request: object) -> object:
        answer = cluster.apply_and_resign(request)  # type: ignore[arg-type] # the node passes it
        cluster.create([ONE])
        return answer

    cluster.add(FIRST, resign)
    second = cluster.add(SECOND)
    follower = await cluster.follow(FIRST, SECOND)
    (error,) = await follower.delete(OF_ONE)
    assert "Of 1 ACLs that matched before the request was sent, 1 are gone" in unknown(error)
    assert second.asked == []
    assert cluster.acls == {ONE, TWO}


async def test_broker_passes_on_not_controller(cluster: AclCluster) -> None:
    """A broker's listing may lag, so it proves nothing. The error is the caller's."""
    node = cluster.add(FIRST, cluster.fail(ErrorCode.NOT_CONTROLLER, "none"))
    follower = await cluster.follow(kind=SourceKind.BROKERS)
    (error,) = await follower.create(ONE)
    assert rejected(error, ErrorCode.NOT_CONTROLLER) == "none"
    assert len(node.asked) == 2


# Connections that break: a request that was sent is never sent again.


@each_mode
@pytest.mark.parametrize("is_committed", [False, True])
async def test_creation_on_a_broken_connection_succeeds_if_the_log_shows_it(
    cluster: AclCluster, writes: Writes, is_committed: bool
) -> None:
    node = cluster.add(FIRST, cluster.apply_and_hang_up if is_committed else HANG_UP)
    follower = await cluster.follow(writes=writes)
    (result,) = await follower.create(ONE)
    if is_committed:
        assert (result, follower.acls) == (None, {ONE})
    else:
        assert "The ACL is not visible." in unknown(result)
        assert cluster.acls == set()
    assert follower.workers == 1
    assert len(node.asked) == 2
    assert follower.updates.statistics.results == {"unknown": 1}


async def test_creations_on_a_broken_connection_are_judged_one_by_one(cluster: AclCluster) -> None:
    """It makes no difference who created an ACL that is visible."""
    cluster.create([TWO])
    cluster.add(FIRST, HANG_UP)
    follower = await cluster.follow()
    one, two, invalid = await follower.create(ONE, TWO, NO_COLON)
    assert two is None
    unknown(one)
    unknown(invalid)


@each_mode
@pytest.mark.parametrize(
    ("by", "gone"), [("nobody", 0), ("request", 1), ("another", 1), ("another before", 0)]
)
async def test_deletion_on_a_broken_connection_never_counts_as_done(
    cluster: AclCluster, writes: Writes, by: str, gone: int
) -> None:
    """The log does not show who deleted an ACL. The deletion is not sent again."""
    cluster.create([ONE, TWO])

    def delete_elsewhere(_: object) -> object:
        cluster.delete([OF_ONE])
        return HANG_UP

    answers: dict[str, object] = {
        "nobody": HANG_UP,
        "request": cluster.apply_and_hang_up,
        "another": delete_elsewhere,
        "another before": HANG_UP,
    }
    node = cluster.add(FIRST, answers[by])
    if by == "another before":
        cluster.delete([OF_ONE])
    follower = await cluster.follow(writes=writes)
    first, second, invalid = await follower.delete(
        OF_ONE, AclFilter(resource_name="three"), AclFilter(operation=99)
    )
    if by == "another before":
        assert "No ACL matched before" in unknown(first)
    else:
        assert f"Of 1 ACLs that matched before the request was sent, {gone} are" in unknown(first)
    assert "No ACL matched before" in unknown(second)
    unknown(invalid)
    assert len(node.asked) == 2


async def test_silence_ends_with_the_timeout_and_the_log_is_read(cluster: AclCluster) -> None:

    def apply_in_silence(request: object) -> object:
        cluster.apply(request)  # type: ignore[arg-type] # the node passes it
        return SILENCE

    cluster.add(FIRST, apply_in_silence)
    follower = await cluster.follow(request_timeout_ms=TIMEOUT_MS // 2)
    assert await follower.create(ONE) == [None]


async def test_log_that_cannot_be_read_leaves_the_outcome_unknown(cluster: AclCluster) -> None:
    cluster.add(FIRST, cluster.apply_and_hang_up)
    follower = await cluster.follow()
    follower.may_read = trio.Event()
    (error,) = await follower.create(ONE)
    assert "closed the connection" in unknown(error)


@pytest.mark.parametrize(
    ("answer", "writes", "text"),
    [
        (lambda _: b"\0\0\0\4\0\0\0\2", Writes.AS_SELF, ""),
        # no result for the item
        (lambda _: b"\0\0\0\x0b\0\0\0\2\0\0\0\0\0\1\0", Writes.AS_SELF, ""),
        (lambda cluster: cluster.fail(ErrorCode.UNKNOWN_SERVER_ERROR), Writes.FORWARD,
         "UNKNOWN_SERVER_ERROR"),
        (lambda _: SILENCE, Writes.AS_SELF, "no answer came in time"),
        (lambda _: SILENCE, Writes.FORWARD, "no answer came in time"),
    ],
    ids=["garbage", "garbage item", "error of an envelope", "silence", "forwarded, silence"],
)  # fmt: skip
async def test_useless_answer_leaves_the_outcome_unknown(
    cluster: AclCluster, answer: Callable[[AclCluster], object], writes: Writes, text: str
) -> None:
    """Silence ends with the time limit."""
    node = cluster.add(FIRST, answer(cluster))
    follower = await cluster.follow(writes=writes)
    with trio.fail_after(TIMEOUT_MS / 1000):
        (error,) = await follower.create(ONE)
    assert text in unknown(error)
    assert len(node.asked) == 2


# Rejections.


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "CLUSTER_ACTION"),
        (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, re.escape("principal.builder.class")),
        (ErrorCode.INVALID_REQUEST, "invalid"),
        (ErrorCode.UNSUPPORTED_VERSION, "version"),
    ],
)
async def test_controller_that_does_not_accept_envelopes_is_named(
    cluster: AclCluster, code: ErrorCode, text: str
) -> None:
    node = cluster.add(FIRST, cluster.fail(code))
    follower = await cluster.follow(writes=Writes.FORWARD)
    (error,) = await follower.create(ONE)
    assert re.search(f"first:9093.*{text}", rejected(error, code))
    assert len(node.asked) == 2
    assert follower.confirmed == []
    assert follower.updates.statistics.results == {"rejected": 1}


@each_mode
async def test_node_without_the_api_is_named(cluster: AclCluster, writes: Writes) -> None:
    node = cluster.add(FIRST)
    lacking = ApiKey.ENVELOPE if writes is Writes.FORWARD else ApiKey.CREATE_ACLS
    node.served = {key: versions for key, versions in node.served.items() if key is not lacking}
    follower = await cluster.follow(writes=writes)
    (error,) = await follower.create(ONE)
    text = rejected(error, ErrorCode.UNSUPPORTED_VERSION)
    assert f"first:9093: UNSUPPORTED_VERSION: The node does not support {lacking.name}" in text


@each_mode
async def test_lack_of_a_right_in_the_cluster_is_attributed(
    cluster: AclCluster, caplog: pytest.LogCaptureFixture, writes: Writes
) -> None:
    """It is the daemon's right or the caller's. Only the daemon's concerns its operator."""
    cluster.add(FIRST, cluster.fail(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Not you."))
    follower = await cluster.follow(writes=writes)
    (error,) = await follower.create(ONE)
    rejected(error, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    is_own = writes is Writes.AS_SELF
    assert str(error) == (missing_alter(None) if is_own else "Not you.")
    assert (missing_alter(None) in caplog.text) is is_own


async def test_missing_right_to_change_acls_names_the_command(cluster: AclCluster) -> None:
    """The cluster's text names the daemon's connection, which helps nobody."""
    cluster.add(FIRST, cluster.fail(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Request(session=1)"))
    log_in = LogIn(mechanism="PLAIN", username="daemon", password="hidden")
    follower = await cluster.follow(writes=Writes.AS_SELF, log_in=log_in)
    (error,) = await follower.create(ONE)
    assert str(error) == (
        "User:daemon lacks ALTER on the cluster: grant it (kafka-acls --add --cluster --operation"
        " Alter --allow-principal User:daemon)"
    )


async def test_rejected_changes_do_not_fill_the_log(
    cluster: AclCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add(FIRST, *(cluster.fail(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "") for _ in "abc"))
    follower = await cluster.follow(writes=Writes.AS_SELF)
    for _ in range(3):
        await follower.create(ONE)
    assert caplog.text.count("changes of ACLs are rejected") == 1


async def test_unlisted_caller_is_denied_and_nothing_is_sent(cluster: AclCluster) -> None:
    node = cluster.add(FIRST)
    follower = await cluster.follow(writes=Writes.FORWARD)
    bob = replace(CALLER, principal="User:bob")
    denied = [*await follower.create(ONE, caller=bob), *await follower.delete(OF_ONE, caller=bob)]
    for error in denied:
        text = rejected(error, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        assert "authorizerd.writes.forward.principals" in text
    assert node.asked == []
    assert follower.updates.statistics.results == {"denied": 2}


# Bounds, order, ends.


async def test_too_many_waiting_requests_are_refused(cluster: AclCluster) -> None:
    node = cluster.add(FIRST, *(100 * [SILENCE]))
    follower = await cluster.follow(requests_max=20)
    ended = []
    for number in range(100):
        ended.append(follower.updates.create([acl(topic=f"t{number}")], CALLER)[0])
        await wait_all_tasks_blocked()
    refused = [each for each in ended if each.is_done]
    assert ended[20:] == refused
    assert {str(each.error) for each in refused} == {"too many updates are waiting"}
    assert follower.updates.statistics.requests_waiting == 20
    assert [request.api_key for request in node.asked].count(ApiKey.CREATE_ACLS) == 16


async def test_requests_that_wait_for_the_log_delay_no_others(cluster: AclCluster) -> None:
    follower = await cluster.follow()
    follower.may_read = trio.Event()
    completions = follower.begin(50)
    with trio.fail_after(10):
        while len(cluster.acls) < 50:
            await wait_all_tasks_blocked(0.001)
    assert not any(completion.is_done for completion in completions)
    follower.may_read.set()
    assert await results(completions) == [None] * 50


async def test_requests_are_sent_side_by_side_and_connections_reused(cluster: AclCluster) -> None:
    """A connection carries one request at a time."""
    node = cluster.add(FIRST)
    follower = await cluster.follow()
    for _ in range(3):
        async with trio.open_nursery() as callers:
            for number in range(10):
                callers.start_soon(follower.create, acl(topic=f"t{number}"))
    connections = [each for each in node.asked if each.api_key is ApiKey.API_VERSIONS]
    assert 1 < len(connections) <= 10
    assert len(node.asked) - len(connections) == 30
    await trio.sleep(60)
    assert node.closed == len(connections)


async def test_accepted_work_survives_its_caller(cluster: AclCluster) -> None:
    follower = await cluster.follow()
    follower.may_read = trio.Event()
    with trio.move_on_after(0.05):
        await follower.create(ONE)
    follower.may_read.set()
    await follower.create(TWO)
    assert follower.acls == {ONE, TWO}


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_shutdown_answers_everything(
    nursery: trio.Nursery, cluster: AclCluster, is_cancelled: bool
) -> None:
    """Changes that were sent may still apply; others are refused. The end takes a few seconds."""
    cluster.add(FIRST, *(100 * [SILENCE]))
    follower = Follower(cluster)
    scope = trio.CancelScope()

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        with scope:
            await follower.updates.run(task_status=task_status)

    await nursery.start(run)
    completions = follower.begin(30)
    await wait_all_tasks_blocked()
    started = trio.current_time()
    if is_cancelled:
        scope.cancel()
    else:
        follower.updates.close()
    errors = await results(completions)
    sent = [each for each in errors if not isinstance(each, UpdateRefusedError)]
    assert len(sent) == 16
    assert all("shutting down" in unknown(each) for each in sent)
    assert trio.current_time() - started <= 5.1
    late = follower.updates.delete([ANYTHING], CALLER)[0]
    assert isinstance(late.error, UpdateRefusedError)
    assert follower.updates.statistics.requests_waiting == 0


async def test_nothing_is_sent_after_the_deadline(cluster: AclCluster) -> None:
    """Requests that waited too long behind others are not sent."""
    node = cluster.add(FIRST, *(100 * [SILENCE]))
    follower = await cluster.follow()
    errors = await results(follower.begin(20))
    assert sum(isinstance(each, UpdateRefusedError) for each in errors) == 4
    asked = [request for request in node.asked if request.api_key is ApiKey.CREATE_ACLS]
    assert len(asked) == 16


async def test_request_without_items_is_not_sent(cluster: AclCluster) -> None:
    node = cluster.add(FIRST)
    follower = await cluster.follow()
    assert await follower.create() == await follower.delete() == []
    assert node.asked == []


async def test_large_requests_keep_their_order(cluster: AclCluster) -> None:
    follower = await cluster.follow(writes=Writes.FORWARD)
    many = [acl(f"User:{number}", topic=f"t{number}") for number in range(3000)]
    assert await follower.create(*many) == [None] * 3000
    filters = [AclFilter(principal=f"User:{number}") for number in range(3000)]
    assert await follower.delete(*filters) == [{each} for each in many]
