"""The set of ACLs that results from a plan of ``authorizerd acls plan``.

**Invariant:** a plan is applied only to the ACLs that it was made for. So the result is the state
that the plan describes.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from authorizerd.management.plan.document import decode_plan
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.state import digest_acls
from authorizerd.metadata.bounded_file import read_file
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.errors import AclSourceError


def apply_plan(path: Path, present: AclSet) -> tuple[AclSet, AclSet]:
    """Return the ACLs after the plan, and those before it, with the settings of the plan.

    Raises:
        AclSourceError: the file is not a plan, or the plan was made for other ACLs.
    """
    try:
        plan = decode_plan(read_file(path))
    except OSError as error:
        raise AclSourceError(str(path), error.strerror or str(error)) from error
    except PlanError as error:
        raise AclSourceError(str(path), error.reason, error.place) from error
    acls = list(dict.fromkeys(dated.acl for dated in present.acls))
    if digest_acls(acls) != plan.made_for.digest:
        raise AclSourceError(
            present.source,
            f"expected the {plan.made_for.acls:,} ACLs that {path} was made for, found "
            f"{len(acls):,} different ones: make the plan again",
        )
    before = replace(
        present,
        super_users=plan.settings.super_users,
        allow_everyone_if_no_acl_found=plan.settings.allow_everyone,
    )
    deleted = set(plan.changes.deleted)
    kept = [acl for acl in acls if acl not in deleted]
    after = before.with_acls([*kept, *plan.changes.created], f"{present.source}, after {path}")
    return after, before
