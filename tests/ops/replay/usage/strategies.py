"""Hypothesis strategies: sets of ACLs, and events that meet them and could have been recorded."""

from __future__ import annotations

from hypothesis import strategies as st

from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Acl, Operation, ResourceType
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from tests.acl.questions import questions
from tests.oracles.usage import Recorded
from tests.support.strategies import acls

asked_questions = questions().filter(
    lambda question: question.operation in OPERATIONS and question.resource_type in RESOURCE_TYPES
)


def acl_set_of(
    acls: list[Acl] | tuple[Acl, ...],
    *,
    added_ms: int | None = 0,
    super_users: tuple[str, ...] = (),
    allow_everyone: bool = False,
) -> AclSet:
    """Return a set of ACLs that were all added at one time."""
    return AclSet(
        source="test",
        acls=tuple(DatedAcl(acl, added_ms) for acl in acls),
        digest=digest_of(acls),
        super_users=super_users,
        allow_everyone_if_no_acl_found=allow_everyone,
    )


def acl_sets(*, unknown_codes: bool = False) -> st.SearchStrategy[AclSet]:
    """Return sets without repeats, with and without super users and the default to allow."""
    return st.builds(
        lambda found, super_users, allow_everyone: acl_set_of(
            found, super_users=super_users, allow_everyone=allow_everyone
        ),
        st.lists(acls(unknown_codes=unknown_codes), max_size=12, unique=True),
        st.sampled_from([(), ("User:b",)]),
        st.booleans(),
    )


def recorded_events() -> st.SearchStrategy[list[Recorded]]:
    """Return events in no order; a question may have been allowed once and denied later."""
    return st.lists(
        st.builds(Recorded, asked_questions, st.booleans(), st.integers(1, 9)), max_size=15
    )


def topic_read(name: str, *, prefixed: bool = False, principal: str = "User:a") -> Acl:
    """Return an ALLOW of READ on a topic, from every host."""
    return Acl(ResourceType.TOPIC, name, 4 if prefixed else 3, principal, "*", Operation.READ, 3)
