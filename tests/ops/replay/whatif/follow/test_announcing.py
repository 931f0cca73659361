from __future__ import annotations

import pytest

from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.whatif.follow.announcing import Announcer
from authorizerd.replay.whatif.report import (
    Changed,
    Detail,
    PrincipalCount,
    ResourceCount,
    WhatIf,
)


def report_of(*details: Detail, unlisted: tuple[str, ...] = ()) -> WhatIf:
    """Return a report of newly denied tuples; ``unlisted`` are principals without details."""
    principals = [*(detail.principal for detail in details), *unlisted]
    denied = Changed(
        events=len(principals),
        tuples=len(principals),
        by_principal=[PrincipalCount(principal=name, events=1, tuples=1) for name in principals],
        by_resource=[
            ResourceCount(
                resource_type="TOPIC", resource_name=each.resource_name, events=1, tuples=1
            )
            for each in details
        ],
        details=details,
    )
    acls = AclSet(source="acls", acls=(), digest=digest_of([]))
    return WhatIf(
        events=9, allowed_events=9, tuples=9, first_at=None, last_at=None, not_evaluated={},
        candidate=JudgedBy.of(acls), baseline=None, newly_denied=denied,
        newly_allowed=Changed(),
    )  # fmt: skip


def denied(principal: str, topic: str, host: str | None = "10.0.0.1") -> Detail:
    return Detail(
        principal=principal, host=host, operation="READ", resource_type="TOPIC",
        resource_name=topic, events=1, first_at="", last_at="", baseline_rule=None,
        candidate_rule="DefaultDeny",
    )  # fmt: skip


def test_each_new_principal_or_resource_is_announced_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announcer = Announcer()
    first, second = denied("User:a", "t"), denied("User:b\x1b", "t", None)
    announcer.announce(report_of(first))
    assert capsys.readouterr().out == (
        "newly denied: User:a READ TOPIC t from 10.0.0.1: DefaultDeny\n"
    )
    announcer.announce(report_of(first, second, denied("User:a", "t", "10.0.0.2")))
    assert capsys.readouterr().out == (
        "newly denied: User:b\\x1b READ TOPIC t from an unknown host: DefaultDeny\n"
    )
    announcer.announce(report_of(first, second, denied("User:a", "other")))
    assert capsys.readouterr().out == (
        "newly denied: User:a READ TOPIC other from 10.0.0.1: DefaultDeny\n"
    )
    announcer.announce(report_of(first, second))
    assert capsys.readouterr().out == ""


def test_principal_whose_tuples_are_not_listed_is_announced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Announcer().announce(report_of(denied("User:a", "t"), unlisted=("User:z",)))
    assert capsys.readouterr().out.splitlines()[1:] == ["newly denied: User:z, 1 event"]
