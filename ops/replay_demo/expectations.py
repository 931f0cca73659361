"""What each command must find in the recording; the figures are facts of it, counted elsewhere.

**Invariant:** a result that is not as it must be ends the demonstration.
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
ACLS: Final = 1_616
"""In force when the last client asked."""
NEWLY_ALLOWED: Final = 2
"""Events that the ACLs at the log's end allow, and those of the time did not."""


class DemonstrationError(Exception):
    """Something is not as it must be; the text says what was found instead."""


def check_ingest(found: Ingested) -> None:
    """Raises: DemonstrationError, where a line was lost or set aside."""
    _check("events", found.events, EVENTS)
    _check("lines", found.lines, EVENTS)


def check_acls(found: AclSet) -> None:
    """Raises: DemonstrationError, where these are not as many as then."""
    _check("ACLs of the time", len(found.acls), ACLS)


def check_same(found: WhatIf, acls: AclSet) -> None:
    """Raises: DemonstrationError, where the ACLs of the time decide anything otherwise."""
    _check_judged(found, acls.digest)
    _check("events newly denied", found.newly_denied.events, 0)
    _check("events newly allowed", found.newly_allowed.events, 0)


def check_later(found: WhatIf, acls: AclSet) -> None:
    """Raises: DemonstrationError, where later ACLs change more or less than they do."""
    _check_judged(found, acls.digest)
    _check("events newly denied", found.newly_denied.events, 0)
    _check("events newly allowed", found.newly_allowed.events, NEWLY_ALLOWED)


def check_usage(found: UsageReport) -> None:
    """Raises: DemonstrationError, where an ACL or a recorded decision is not accounted for."""
    sorted_acls = len(found.used) + len(found.unused) + sum(map(len, found.not_judged.values()))
    _check("ACLs sorted", sorted_acls, ACLS)
    _check("events that the ACLs decide otherwise", found.disagreeing.events, 0)
    if found.suggestions.proof is None:
        raise DemonstrationError("usage: nothing is suggested, or nothing proved")


def check_load(found: LoadReport) -> None:
    """Raises: DemonstrationError, where an answer is not the recorded one, or is not there."""
    _check("answers", found.answered, EVENTS)
    _check("answers that are not as recorded", found.mismatches, 0)


def _check_judged(found: WhatIf, digest: str) -> None:
    assert isinstance(found.candidate, JudgedBy)
    _check("events judged", found.events, EVENTS)
    _check("events not evaluated", len(found.not_evaluated), 0)
    _check("digest", found.candidate.digest, digest)


def _check(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise DemonstrationError(f"{what}: {found}, and must be {expected}")
