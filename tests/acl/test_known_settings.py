"""Decisions under unknown settings: which are certain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.known_settings import (
    ALLOW_EVERYONE,
    SUPER_USERS,
    KnownSettings,
    doubt_answer,
    doubt_denial,
)
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from tests.support.acls import acl, question, snapshot_of
from tests.support.strategies import acls, resource_names

SUPER = frozenset(("User:a",))
QUESTIONS = st.builds(
    Question,
    st.sampled_from(("User:a", "User:b", "User:nobody")),
    st.sampled_from(("10.0.0.1", "10.9.9.9", None)),
    st.sampled_from((Operation.READ, Operation.WRITE)),
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    resource_names,
)


@given(
    st.lists(acls(), max_size=6, unique=True),
    QUESTIONS,
    st.sampled_from((None, frozenset[str](), SUPER)),
    st.sampled_from((None, False, True)),
)
def test_denial_is_doubted_exactly_if_other_values_would_allow_it(
    held: list[Acl], asked: Question, users: frozenset[str] | None, is_open: bool | None
) -> None:
    snapshot, known = snapshot_of(*held), KnownSettings(users, is_open)
    possible = {
        (by_user, by_default): is_allowed(
            snapshot, AuthorizerSettings(frozenset(by_user), by_default), asked
        )
        for by_user in ([(), (asked.principal,)] if users is None else [tuple(users)])
        for by_default in ([False, True] if is_open is None else [is_open])
    }
    if is_allowed(snapshot, known.least, asked):
        assert all(possible.values())
        return
    doubt = doubt_answer(snapshot, known, asked)
    assert bool(doubt.keys) == any(possible.values())
    assert (SUPER_USERS in doubt.keys) == (users is None)
    assert (ALLOW_EVERYONE in doubt.keys) == any(
        allowed for (by_user, _), allowed in possible.items() if by_user != (asked.principal,)
    )


@pytest.mark.parametrize(
    ("known", "keys", "text"),
    [
        (KnownSettings(frozenset(), False), (), ""),
        (KnownSettings(None, False), (SUPER_USERS,),
         " unless User:a is a super user, which is unknown"),
        (KnownSettings(frozenset(), None), (ALLOW_EVERYONE,),
         " unless allow.everyone.if.no.acl.found is true, which is unknown"),
        (KnownSettings(None, None), (SUPER_USERS, ALLOW_EVERYONE),
         " unless User:a is a super user or allow.everyone.if.no.acl.found is true,"
         " which is unknown"),
    ],
)  # fmt: skip
def test_doubt_names_what_is_unknown(
    known: KnownSettings, keys: tuple[str, ...], text: str
) -> None:
    """A principal that nothing names is not known to be a super user, nor not to be one."""
    doubt = doubt_answer(snapshot_of(), known, question("User:a"))
    assert (doubt.keys, str(doubt)) == (keys, text)
    assert known.unknown == keys
    unnamed = doubt_denial(snapshot_of(), known, None, ResourceType.TOPIC, "t")
    assert SUPER_USERS not in unnamed.keys
    closed = doubt_answer(snapshot_of(acl("User:b")), known, question("User:a"))
    assert ALLOW_EVERYONE not in closed.keys
