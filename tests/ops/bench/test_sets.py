"""The sets of the benchmark are always the same."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from authorizerd.acl.builder import build
from ops.bench.decisions import answers
from ops.bench.sets import AclSet, kind, lines_digest, wide, write_lines

SETS = (kind(), wide(1000, 2))


def test_the_set_kind_is_the_one_that_older_figures_were_taken_on() -> None:
    """Figures of two versions compare only where the set is the same to the byte."""
    assert lines_digest(kind().acl_lines()) == (
        "b7367a0532f9507d0167b7055a37f34b6eb2bea621e38dce6258ffb4abe49731"
    )
    assert lines_digest(kind().question_lines()) == (
        "45f7b840b5adb610975e22f3b70b09cd6fb34690e97d6c1feeddda47b5d137e4"
    )


def test_a_wide_set_begins_as_it_always_did() -> None:
    """The large sets are too slow to be pinned whole: their first lines stand for them."""
    assert lines_digest(islice(wide(50_000, 10).acl_lines(), 1000)) == (
        "2af0053bd2f0926e6c0926b1cbbc2fc2a6b3f74b4b52fb48e4455b5c2bf36d35"
    )


@pytest.mark.parametrize("acl_set", SETS, ids=lambda acl_set: acl_set.name)
def test_a_set_is_the_same_each_time_it_is_asked_for(acl_set: AclSet) -> None:
    """Nothing in a set is random, and none of its iterators is used up."""
    assert list(acl_set.added()) == list(acl_set.added())
    assert list(acl_set.questions()) == list(acl_set.questions())


@pytest.mark.parametrize("acl_set", SETS, ids=lambda acl_set: acl_set.name)
def test_a_set_holds_no_binding_and_no_id_twice(acl_set: AclSet) -> None:
    """Kafka keeps a binding once: a set with a repeated one could not be loaded."""
    added = list(acl_set.added())
    assert len({each.id for each in added}) == len({each.acl for each in added}) == len(added)


def test_a_wide_set_has_a_tenth_as_many_rules_on_the_wildcard_as_resources() -> None:
    """These are what a scan of a matching pattern's ACLs meets with every question."""
    acls = list(wide(1000, 2).acls())
    assert len(acls) == 1000 * 2 + 100
    assert sum(acl.resource_name == "*" for acl in acls) == 100


def test_seven_of_ten_questions_of_kind_are_allowed() -> None:
    """The mix of allowed and denied is part of what is measured."""
    acl_set = kind()
    given = answers(build(acl_set.added()), list(acl_set.questions()))
    assert given == "AAAAAAADDD" * 100


def test_the_lines_of_a_set_are_written_for_peers_to_read(tmp_path: Path) -> None:
    """A peer in another language reads the very lines that are pinned here."""
    acl_set = wide(1000, 2)
    write_lines(acl_set, tmp_path)
    written = (tmp_path / "wide-1000-2.questions.jsonl").read_bytes().splitlines()
    assert written == list(acl_set.question_lines())
    assert (
        (tmp_path / "wide-1000-2.acls.jsonl")
        .read_bytes()
        .startswith(
            b'["GROUP","foo-bar35_resource-0","PREFIXED","User:test-user","*","READ","ALLOW"]\n'
        )
    )
