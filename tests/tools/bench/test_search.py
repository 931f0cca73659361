"""Searches are measured beside a peer only if it finds the same."""

from __future__ import annotations

import pytest

from tests.support.acls import acl, question, snapshot_of
from tools.bench.decisions import DisagreementError
from tools.bench.search import ENDPOINTS
from tools.bench.search_peer import RESOURCES, SUBJECTS, Endpoint, check_found

ASKED = question("User:a", "READ", topic="t")


@pytest.mark.parametrize(
    ("name", "left_out"),
    [("who can", ("subject", "id")), ("what can", ("resource", "id")), ("can", ("action", None))],
)
def test_a_search_leaves_out_what_it_searches_for(name: str, left_out: tuple[str, str]) -> None:
    whole = ENDPOINTS["explain"].format(ASKED)
    field, inner = left_out
    if inner is None:
        del whole[field]
    else:
        del whole[field][inner]
    assert ENDPOINTS[name].format(ASKED) == whole


@pytest.mark.parametrize(
    ("searched", "ours", "theirs", "is_right"),
    [
        (SUBJECTS, ["a", "b"], ["b"], True),
        (SUBJECTS, ["a"], ["a", "b"], False),
        (RESOURCES, ["t"], ["u"], True),  # a page may have others that are allowed
        (RESOURCES, ["t"], ["t", "x"], False),
    ],
)
def test_a_peer_that_finds_what_is_not_allowed_is_rejected(
    searched: Endpoint, ours: list[str], theirs: list[str], is_right: bool
) -> None:
    snapshot = snapshot_of(acl(topic="t"), acl(topic="u"))
    if is_right:
        check_found(searched, ASKED, snapshot, ours, theirs)
        return
    with pytest.raises(DisagreementError):
        check_found(searched, ASKED, snapshot, ours, theirs)
