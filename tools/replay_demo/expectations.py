"""The expected results of each command. The figures were counted without the pipeline.

**Invariant:** an unexpected result ends the demonstration.
"""

from __future__ import annotations

from typing import Final

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.usage.report import UsageReport
from authorizerd.replay.whatif.report import WhatIf

EVENTS: Final = 13_518
FIRST_EVENTS: Final = 9_000
"""Lines of the log when the first ingest reads it."""
ACLS: Final = 1_616
"""ACLs in force at the time of the last client request."""
NEWLY_ALLOWED: Final = 2
"""Number of denied events that the ACLs at the end of the log allow."""


class DemonstrationError(Exception):
    """An unexpected result; the text names what was expected and found."""


def check_ingest(found: Ingested, events: int = EVENTS) -> None:
    """Check the figures of ingest.

    Raises:
        DemonstrationError: a line was lost, set aside or counted twice.
    """
    _check("events", found.events, events)
    _check("lines", found.lines, events)


def check_unchanged(found: Ingested, before: Ingested) -> None:
    """Check that an ingest of the same log changes no figure.

    Raises:
        DemonstrationError: a figure differs.
    """
    _check("the figures after a repeated ingest", found, before)


def check_acls(found: AclSet) -> None:
    """Check the ACLs in force at the time of the last client request.

    Raises:
        DemonstrationError: their number differs.
    """
    _check("ACLs in force", len(found.acls), ACLS)


def check_same(found: WhatIf, acls: AclSet) -> None:
    """Check that the ACLs in force at the last client request decide every event as recorded.

    Raises:
        DemonstrationError: they decide an event differently.
    """
    _check_judged(found, acls.digest)
    _check("events newly denied", found.newly_denied.events, 0)
    _check("events newly allowed", found.newly_allowed.events, 0)


def check_later(found: WhatIf, acls: AclSet) -> None:
    """Check which decisions the ACLs at the end of the log change.

    Raises:
        DemonstrationError: they change other decisions than expected.
    """
    _check_judged(found, acls.digest)
    _check("events newly denied", found.newly_denied.events, 0)
    _check("events newly allowed", found.newly_allowed.events, NEWLY_ALLOWED)


def check_usage(found: UsageReport) -> None:
    """Check the report on used and unused ACLs.

    Raises:
        DemonstrationError: an ACL is not classified, the ACLs decide an event differently from the
            record, or the suggestions have no proof.
    """
    classified = len(found.used) + len(found.unused) + sum(map(len, found.not_judged.values()))
    _check("ACLs classified as used, unused or not judged", classified, ACLS)
    _check("events that the ACLs decide differently from the record", found.disagreeing.events, 0)
    if found.suggestions.proof is None:
        raise DemonstrationError("usage: expected a proof of the suggestions, found none")


def check_load(found: LoadReport) -> None:
    """Check the answers of the daemon.

    Raises:
        DemonstrationError: an answer is missing or differs from the record.
    """
    _check("answers", found.answered, EVENTS)
    _check("answers that differ from the record", found.mismatches, 0)


def _check_judged(found: WhatIf, digest: str) -> None:
    assert isinstance(found.candidate, JudgedBy)
    _check("events judged", found.events, EVENTS)
    _check("events not evaluated", len(found.not_evaluated), 0)
    _check("digest", found.candidate.digest, digest)


def _check(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise DemonstrationError(f"{what}: expected {expected}, found {found}")
