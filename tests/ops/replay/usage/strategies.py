"""Hypothesis strategies: sets of ACLs, and recorded events that they match."""

from __future__ import annotations

from hypothesis import strategies as st

from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES
from authorizerd.replay.acl_set import AclSet
from tests.acl.questions import questions
from tests.ops.replay.acl_sets import acl_set_of
from tests.oracles.usage import Recorded
from tests.support.strategies import acls

asked_questions = questions().filter(
    lambda question: question.operation in OPERATIONS and question.resource_type in RESOURCE_TYPES
)


def acl_sets(*, unknown_codes: bool = False) -> st.SearchStrategy[AclSet]:
    """Generate sets without repeats, with several settings; allow-everyone may be unknown."""
    return st.builds(
        lambda found, super_users, allow_everyone: acl_set_of(
            found, super_users=super_users, allow_everyone=allow_everyone
        ),
        st.lists(acls(unknown_codes=unknown_codes), max_size=12, unique=True),
        st.sampled_from([(), ("User:b",)]),
        st.sampled_from([None, False, True]),
    )


def recorded_events() -> st.SearchStrategy[list[Recorded]]:
    """Generate unordered events; a question may be allowed once and denied later."""
    return st.lists(
        st.builds(Recorded, asked_questions, st.booleans(), st.integers(1, 9)), max_size=15
    )
