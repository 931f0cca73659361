from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.text import encode_json
from authorizerd.replay.whatif.evaluation import exit_code_of
from authorizerd.replay.whatif.report import (
    SHOWN_MAX,
    Changed,
    Detail,
    PrincipalCount,
    WhatIf,
    summary_lines,
)

ACLS = AclSet(
    source="log", acls=(), digest=digest_of([]), offset=7, stamped_ms=1_795_278_666_718,
    super_users=("User:root",), allow_everyone_if_no_acl_found=False,
)  # fmt: skip
REPORT = WhatIf(
    events=9, allowed_events=4, tuples=3, first_at="2026-11-21T01:00:00.000Z",
    last_at="2026-11-21T02:00:00.000Z", not_evaluated={}, candidate=JudgedBy.of(ACLS),
    baseline=None, newly_denied=Changed(), newly_allowed=Changed(),
)  # fmt: skip


def text(report: WhatIf) -> str:
    return "\n".join(summary_lines(report))


def test_summary_says_that_nothing_changes() -> None:
    assert text(REPORT).splitlines() == [
        "9 events of 3 tuples, from 2026-11-21T01:00:00.000Z to 2026-11-21T02:00:00.000Z, "
        "judged by 0 ACLs (log)",
        "compared with the recorded decisions",
        "newly denied: nothing",
        "newly allowed: nothing",
    ]


@pytest.mark.parametrize(("differing", "code"), [(0, 0), (1, 0), (2, 3)])
def test_record_that_the_baseline_contradicts_is_exit_code_3(differing: int, code: int) -> None:
    counts = [Count(events=events, tuples=1) for events in (20 - differing, differing)]
    report = replace(REPORT, as_recorded=counts[0], not_as_recorded=counts[1])
    assert exit_code_of(report) == code
    assert ("this proves nothing: the ACLs decide 2 of 20" in text(report)) is (code == 3)


def test_summary_says_which_settings_are_unknown() -> None:
    unknown = replace(ACLS, super_users=None, allow_everyone_if_no_acl_found=None)
    lines = text(replace(REPORT, candidate=JudgedBy.of(unknown))).splitlines()
    assert lines[2:4] == [
        "super.users is unknown, so super users are judged by the ACLs alone",
        "allow.everyone.if.no.acl.found is unknown, and taken to be false",
    ]
    assert not JudgedBy.of(unknown).decides_as(JudgedBy.of(ACLS))


def test_summary_without_events_names_no_times() -> None:
    first, *_ = text(replace(REPORT, events=0, tuples=0, first_at=None, last_at=None)).splitlines()
    assert first.startswith("0 events of 0 tuples, judged by ")


def test_summary_warns_about_a_log_of_denials() -> None:
    assert "cannot show that nobody loses access" in text(replace(REPORT, allowed_events=0))
    assert "cannot show" not in text(replace(REPORT, allowed_events=0, events=0))
    with_baseline = replace(REPORT, allowed_events=0, baseline=JudgedBy.of(ACLS))
    assert "cannot show" not in text(with_baseline)


def test_summary_lists_the_most_frequent_changes() -> None:
    detail = Detail(
        principal="User:\x1b[2J", host=None, operation="READ", resource_type="TOPIC",
        resource_name="t\n", events=5, first_at="", last_at="", baseline_rule=None,
        candidate_rule="DefaultDeny",
    )  # fmt: skip
    principals = [PrincipalCount(principal=f"User:{n}", events=5, tuples=1) for n in range(1000)]
    denied = Changed(
        events=6000, tuples=1200, by_principal=principals, by_principal_left_out=200,
        details=[detail] * 1000, details_left_out=200,
    )  # fmt: skip
    shown = text(
        replace(REPORT, newly_denied=denied, not_evaluated={"x": Count(events=2, tuples=1)})
    )
    assert "newly denied: 6,000 events of 1,200 tuples" in shown
    assert "  and 1,190 other principals" in shown
    assert "not evaluated, x: 2 events of 1 tuple" in shown
    assert (
        "  User:\\x1b[2J READ TOPIC t\\n from an unknown host, 5 events: DefaultDeny "
        "(before: unknown)"
    ) in shown
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2 + 1 + 1 + SHOWN_MAX + 1 + 1 + SHOWN_MAX + 1


def test_summary_names_identical_acls() -> None:
    same = replace(REPORT, baseline=JudgedBy.of(replace(ACLS, source="other", offset=None)))
    assert "identical ACLs: nothing changes" in text(same)
    for other in (
        replace(ACLS, super_users=()),
        replace(ACLS, allow_everyone_if_no_acl_found=True),
        replace(ACLS, digest="sha256:other"),
    ):
        assert "identical" not in text(replace(REPORT, baseline=JudgedBy.of(other)))


def test_report_names_the_acls_by_digest_and_moment() -> None:
    told = json.loads(encode_json(REPORT))
    assert told["candidate"] == {
        "source": "log", "digest": digest_of([]), "offset": 7,
        "stamped_at": "2026-11-21T16:31:06.718Z", "acls": 0, "super_users": ["User:root"],
        "allow_everyone_if_no_acl_found": False,
    }  # fmt: skip
    assert told["baseline"] is None
    assert (told["newly_denied"]["events"], told["newly_denied"]["details"]) == (0, [])
