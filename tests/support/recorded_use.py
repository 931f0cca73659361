"""Which grants of the real broker its recorded traffic used, by a plain scan."""

from pathlib import Path
from typing import NamedTuple

from authorizerd.acl.model import Acl, PermissionType
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.reading import read_acl_source
from tests.ops.replay.acl_sets import question_of
from tests.ops.replay.recorded_events import START, real_events
from tests.oracles.usage import Recorded, used_acls

ADMIN = ("User:admin",)
LAST_CLIENT_LINE = "2026-11-21T16:31:06.718Z"


class RecordedUse(NamedTuple):
    """The ACLs in force at one moment, and what the traffic says about those older than it.

    ``unused`` are grants that no recorded request used. ``alone`` are grants without which some
    recorded request would be denied.
    """

    acls: AclSet
    unused: tuple[Acl, ...]
    alone: tuple[Acl, ...]


def read_recorded_use(log_dir: Path, as_of: str | None = None) -> RecordedUse:
    """Return the use of the ACLs at the end of the log, or at ``as_of``."""
    acls = read_acl_source(str(log_dir), as_of=as_of, super_users=ADMIN)
    start_ms = int(START.timestamp() * 1000)
    events = [each for each in real_events(log_dir) if each.principal not in ADMIN]
    recorded = [Recorded(question_of(each), each.allowed, start_ms + each.at) for each in events]
    first_ms = min(each.at_ms for each in recorded)
    used = used_acls([dated.acl for dated in acls.acls], ADMIN, recorded)
    grants = [
        dated.acl
        for dated in acls.acls
        if dated.added_ms is not None
        and dated.added_ms < first_ms
        and dated.acl.permission_type == PermissionType.ALLOW
    ]
    return RecordedUse(
        acls,
        tuple(acl for acl in grants if acl not in used),
        tuple(acl for acl in grants if acl in used and used[acl].alone),
    )
