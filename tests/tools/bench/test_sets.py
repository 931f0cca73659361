"""The sets of the benchmark never change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.acl.releases import RULES_4_4
from authorizerd.acl.snapshot import with_rules
from tools.bench.decisions import collect_answers
from tools.bench.sets import (
    MANY_QUESTIONS,
    QUESTIONS,
    AclSet,
    digest_lines,
    kind,
    kind_with_many_questions,
    ranges,
    wide,
    write_lines,
)


@pytest.mark.parametrize(
    ("lines", "digest"),
    [
        (kind().acl_lines(), "b7367a0532f9507d0167b7055a37f34b6eb2bea621e38dce6258ffb4abe49731"),
        (
            kind().question_lines(),
            "45f7b840b5adb610975e22f3b70b09cd6fb34690e97d6c1feeddda47b5d137e4",
        ),
        # The large sets are slow to generate, so only their first lines are checked.
        (
            islice(wide(50_000, 10).acl_lines(), 1000),
            "2af0053bd2f0926e6c0926b1cbbc2fc2a6b3f74b4b52fb48e4455b5c2bf36d35",
        ),
        (
            ranges(10).acl_lines(),
            "475fa3c85744dce69e68ef26de855117f71cf771a67f536eccfe15c002a75cde",
        ),
        (
            ranges(1000).question_lines(),
            "47bb8ee59fe0913dbf5553526f1d57ba1b577b9ce66bff42de0d6172d0a27aeb",
        ),
    ],
    ids=("kind", "kind's questions", "wide", "ranges", "questions about ranges"),
)
def test_sets_are_the_same_in_every_version(lines: Iterator[bytes], digest: str) -> None:
    """Figures of two versions are comparable only if the sets are identical."""
    assert digest_lines(lines) == digest


@pytest.mark.parametrize(
    "acl_set", [kind(), wide(1000, 2), ranges(10)], ids=lambda acl_set: acl_set.name
)
def test_set_can_be_iterated_repeatedly_and_has_no_duplicates(acl_set: AclSet) -> None:
    added = list(acl_set.added())
    assert added == list(acl_set.added())
    assert list(acl_set.questions()) == list(acl_set.questions())
    assert len({each.id for each in added}) == len({each.acl for each in added}) == len(added)


def test_wide_set_has_a_wildcard_rule_for_every_ten_resources() -> None:
    acls = list(wide(1000, 2).acls())
    assert len(acls) == 1000 * 2 + 100
    assert sum(acl.resource_name == "*" for acl in acls) == 100


def test_seven_of_ten_questions_of_kind_are_allowed() -> None:
    acl_set = kind()
    given = collect_answers(build(acl_set.added()), list(acl_set.questions()))
    assert given == "AAAAAAADDD" * 100


@pytest.mark.parametrize(("each", "allowed"), [(0, 1000), (10, 630), (1000, 630)])
def test_questions_about_ranges_are_distinct_and_most_are_allowed(each: int, allowed: int) -> None:
    acl_set = ranges(each)
    questions = list(acl_set.questions())
    assert len({question.resource_name for question in questions}) == QUESTIONS
    given = collect_answers(with_rules(build(acl_set.added()), RULES_4_4), questions)
    assert given.count("A") == allowed


def test_many_questions_are_distinct_and_begin_with_those_of_kind() -> None:
    many = list(kind_with_many_questions().questions())
    assert len(set(many)) == len(many) == MANY_QUESTIONS
    assert many[:QUESTIONS] == list(kind().questions())
    # Also without the host, most are: another principal or operation asks about the same topic.
    without_host = {(each.principal, each.operation, each.resource_name) for each in many}
    assert len(without_host) > MANY_QUESTIONS / 2


def test_set_is_written_for_peers(tmp_path: Path) -> None:
    acl_set = wide(1000, 2)
    write_lines(acl_set, tmp_path)
    written = (tmp_path / "wide-1000-2.questions.jsonl").read_bytes().splitlines()
    assert written == list(acl_set.question_lines())
    first = b'["GROUP","foo-bar35_resource-0","PREFIXED","User:test-user","*","READ","ALLOW"]\n'
    assert (tmp_path / "wide-1000-2.acls.jsonl").read_bytes().startswith(first)
