"""Whose changes are forwarded in their own name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from authorizerd.actors.authorizer import Authentication, RequestContext
from authorizerd.config.follow.settings import FollowSettings, Privileged, SourceKind
from authorizerd.daemon.sources.writes.rights import ForwardingRights

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
) -> str | None:
    """Return why this caller is not forwarded. ROOT is a super user of the daemon."""
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
    return rights.find_obstacle(replace(caller, **changes))


@pytest.mark.parametrize("authentication", PROVED)
@pytest.mark.parametrize("privileged", [frozenset(), EVERY_KIND])
def test_listed_and_authenticated_callers_are_forwarded(
    authentication: Authentication, privileged: frozenset[Privileged]
) -> None:
    assert obstacle(ALICE, authentication, privileged=privileged) is None


@pytest.mark.parametrize("authentication", Authentication)
@pytest.mark.parametrize("principal", ["User:bob", "User:Alice", "Group:alice", "User:alice "])
@pytest.mark.parametrize("client_id", [None, ALICE, ROOT])
def test_unlisted_principals_are_not_forwarded(
    authentication: Authentication, principal: str, client_id: str | None
) -> None:
    """A client id that imitates a listed principal makes no difference."""
    text = obstacle(principal, authentication, privileged=EVERY_KIND, client_id=client_id)
    assert text is not None
    assert PRINCIPALS in text


@pytest.mark.parametrize("authentication", [Authentication.NONE, Authentication.FORWARDED])
def test_listed_principals_without_proof_are_not_forwarded(authentication: Authentication) -> None:
    """No setting changes this: an Envelope from another server is no proof either."""
    text = obstacle(ALICE, authentication, privileged=EVERY_KIND)
    assert text is not None
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
        assert text is not None
        assert PRIVILEGED in text
        assert text.endswith(f" {kind}")
    assert obstacle(principal, authentication, privileged=frozenset({kind})) is None
    unlisted = obstacle(principal, authentication, privileged=EVERY_KIND, listed=frozenset())
    assert unlisted is not None


def test_callers_of_several_kinds_need_all_their_settings() -> None:
    """A super user who logs in with a local password is one."""
    for kind in (Privileged.SUPER_USERS, Privileged.LOCAL_USERS):
        assert obstacle(ROOT, Authentication.PLAIN, privileged=frozenset({kind})) is not None
    both = frozenset({Privileged.SUPER_USERS, Privileged.LOCAL_USERS})
    assert obstacle(ROOT, Authentication.PLAIN, privileged=both) is None


def test_callers_without_an_address_are_not_forwarded() -> None:
    """The controllers match hosts as well."""
    text = obstacle(ALICE, Authentication.SCRAM, host=None)
    assert text is not None
    assert "address" in text
