"""Whose changes are forwarded in their own name, and those that a daemon refuses."""

from typing import Any

import pytest
import trio
from msgspec.structs import replace

from authorizerd.acl.model import AclFilter
from authorizerd.actors.authorizer import Authentication, RequestContext
from authorizerd.actors.errors import RejectedUpdateError
from authorizerd.actors.updates import ClusterPlan, Updates
from authorizerd.config.follow.settings import (
    FollowSettings,
    Privileged,
    Server,
    SourceKind,
    Writes,
)
from authorizerd.daemon.kafka.cluster_updates import Results, change_cluster
from authorizerd.daemon.sources.writes.refused import RefusedUpdates
from authorizerd.daemon.sources.writes.rights import ForwardingRights
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.sources.writes.acl_cluster import AclCluster, Follower
from tests.support.acls import acl

ALICE = "User:alice"
ANONYMOUS = "User:ANONYMOUS"
ROOT = "User:root"
PRINCIPALS = "authorizerd.writes.forward.principals"
PRIVILEGED = "authorizerd.writes.forward.privileged"
PROVED = (Authentication.CERTIFICATE, Authentication.SCRAM)
EVERY_KIND = frozenset(Privileged)


def obstacle(
    principal: str,
    authentication: Authentication,
    *,
    listed: frozenset[str] = frozenset({ALICE, ANONYMOUS, ROOT}),
    privileged: frozenset[Privileged] = frozenset(),
    **changes: object,
) -> str:
    """Return why this caller is not forwarded, or an empty text. ROOT is a super user."""
    settings = FollowSettings(
        kind=SourceKind.QUORUM,
        servers=(),
        writes_forward_principals=listed,
        writes_forward_privileged=privileged,
    )
    caller = RequestContext(
        principal=principal,
        host="10.0.0.1",
        request_name="CreateAcls",
        authentication=authentication,
    )
    rights = ForwardingRights(settings, lambda principal: principal == ROOT)
    return rights.find_obstacle(replace(caller, **changes)) or ""


@pytest.mark.parametrize("authentication", PROVED)
@pytest.mark.parametrize("privileged", [frozenset(), EVERY_KIND])
def test_listed_and_authenticated_callers_are_forwarded(
    authentication: Authentication, privileged: frozenset[Privileged]
) -> None:
    assert obstacle(ALICE, authentication, privileged=privileged) == ""


@pytest.mark.parametrize("authentication", Authentication)
@pytest.mark.parametrize("principal", ["User:bob", "User:Alice", "Group:alice", "User:alice "])
@pytest.mark.parametrize("client_id", [None, ALICE, ROOT])
def test_unlisted_principals_are_not_forwarded(
    authentication: Authentication, principal: str, client_id: str | None
) -> None:
    """A client id that imitates a listed principal makes no difference."""
    text = obstacle(principal, authentication, privileged=EVERY_KIND, client_id=client_id)
    assert PRINCIPALS in text


@pytest.mark.parametrize("authentication", [Authentication.NONE, Authentication.FORWARDED])
def test_listed_principals_without_proof_are_not_forwarded(authentication: Authentication) -> None:
    """No setting changes this: an Envelope from another server proves nothing either."""
    text = obstacle(ALICE, authentication, privileged=EVERY_KIND)
    assert "not authenticated the caller" in text


@pytest.mark.parametrize(
    ("principal", "authentication", "kind"),
    [
        (ANONYMOUS, Authentication.NONE, Privileged.ANONYMOUS),
        (ANONYMOUS, Authentication.SCRAM, Privileged.ANONYMOUS),
        (ANONYMOUS, Authentication.CERTIFICATE, Privileged.ANONYMOUS),
        (ROOT, Authentication.SCRAM, Privileged.SUPER_USERS),
        (ROOT, Authentication.CERTIFICATE, Privileged.SUPER_USERS),
        (ALICE, Authentication.PLAIN, Privileged.LOCAL_USERS),
    ],
)
def test_privileged_callers_need_the_setting_of_their_kind(
    principal: str, authentication: Authentication, kind: Privileged
) -> None:
    """The denial names the setting and the kind."""
    for privileged in (frozenset[Privileged](), EVERY_KIND - {kind}):
        text = obstacle(principal, authentication, privileged=privileged)
        assert PRIVILEGED in text
        assert text.endswith(f" {kind}")
    assert obstacle(principal, authentication, privileged=frozenset({kind})) == ""
    assert obstacle(principal, authentication, privileged=EVERY_KIND, listed=frozenset())


def test_callers_of_several_kinds_need_all_their_settings() -> None:
    """A super user who logs in with a local password is one."""
    for kind in (Privileged.SUPER_USERS, Privileged.LOCAL_USERS):
        assert obstacle(ROOT, Authentication.PLAIN, privileged=frozenset({kind}))
    both = frozenset({Privileged.SUPER_USERS, Privileged.LOCAL_USERS})
    assert obstacle(ROOT, Authentication.PLAIN, privileged=both) == ""


def test_callers_without_an_address_are_not_forwarded() -> None:
    """The controllers match hosts as well."""
    assert "address" in obstacle(ALICE, Authentication.SCRAM, host=None)


CALLER = RequestContext(principal="User:root", host="10.0.0.1", request_name="CreateAcls")
SERVERS = (Server("kafka-1", 9093), Server("::1", 9094))


def refused(kind: SourceKind = SourceKind.QUORUM) -> RefusedUpdates:
    return RefusedUpdates(FollowSettings(kind=kind, servers=SERVERS))


@pytest.mark.parametrize(
    ("kind", "modes"), [(SourceKind.QUORUM, "as-self or forward"), (SourceKind.BROKERS, "as-self")]
)
def test_every_item_says_where_to_send_the_change(kind: SourceKind, modes: str) -> None:
    """The code tells clients not to try again."""
    updates = refused(kind)
    ended: list[Any] = [
        *updates.create([acl(), acl(topic="u")], CALLER),
        *updates.delete([AclFilter()], CALLER),
    ]
    assert len(ended) == 3
    for completion in ended:
        error = completion.error
        assert isinstance(error, RejectedUpdateError)
        assert error.code == ErrorCode.POLICY_VIOLATION
        assert "authorizerd.writes=refuse" in str(error)
        assert "kafka-1:9093, [::1]:9094" in str(error)
        assert str(error).endswith(f"set authorizerd.writes to {modes}.")
        assert ("controller" in str(error)) is (kind is SourceKind.QUORUM)


@pytest.fixture(params=Writes)
async def updates(nursery: trio.Nursery, request: pytest.FixtureRequest) -> Updates:
    """The updates of a follower, in each mode."""
    if request.param is Writes.REFUSE:
        return refused()
    return Follower(AclCluster(nursery), writes=request.param).updates


async def test_no_follower_checks_an_expected_offset(updates: Updates) -> None:
    """The cluster does not, and the daemon's own check could be outdated by then."""
    assert not updates.checks_guards


async def test_credentials_and_configs_are_refused_in_every_mode(updates: Updates) -> None:
    """The plan is not even made, and the error names the file and SIGHUP."""

    def plan(image: ClusterImage) -> ClusterPlan[Results]:
        raise AssertionError(image)

    results = await change_cluster(updates, plan, ["alice", "bob"])
    assert set(results) == {"alice", "bob"}
    for error in results.values():
        assert error is not None
        assert error.code == ErrorCode.POLICY_VIOLATION
        assert "SCRAM credentials in the cluster" in str(error.message)
        assert "configuration file" in str(error.message)
        assert "SIGHUP" in str(error.message)


async def test_refusing_updates_run_until_they_are_closed(nursery: trio.Nursery) -> None:
    updates = refused()
    await nursery.start(updates.run)
    updates.close()
    assert updates.statistics.requests_waiting == 0
