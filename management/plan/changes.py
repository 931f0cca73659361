"""The changes that turn the ACLs in force into desired ones.

They are made in four steps, because one request of Kafka either creates or deletes: create DENY,
create ALLOW, delete ALLOW, delete DENY.

**Invariant:** at any point within the steps, nobody may do anything that is denied both before and
after the plan. Until the old ALLOWs are gone, the DENYs of both states are present; and as long as
any old ACL is missing, all new ones are present.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import astuple

from authorizerd.acl.grants.reading import join_notes
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX
from authorizerd.acl.validation import find_creation_fault
from authorizerd.management.batches import split_joined
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.selector import Selector

StepName: TypeAlias = Literal["create_deny", "create_allow", "delete_allow", "delete_deny"]
STEPS: Final[tuple[StepName, ...]] = ("create_deny", "create_allow", "delete_allow", "delete_deny")
"""The steps in their order."""


class AclChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs of each step, sorted, notes first or last. No ACL is in two steps."""

    create_deny: tuple[Acl, ...] = ()
    create_allow: tuple[Acl, ...] = ()
    delete_allow: tuple[Acl, ...] = ()
    delete_deny: tuple[Acl, ...] = ()

    @property
    def created(self) -> tuple[Acl, ...]:
        return self.create_deny + self.create_allow

    @property
    def deleted(self) -> tuple[Acl, ...]:
        return self.delete_allow + self.delete_deny

    @property
    def count(self) -> int:
        return len(self.created) + len(self.deleted)

    @property
    def without_notes(self) -> AclChanges:
        return AclChanges(
            **{step: tuple(acl for acl in self.acls_of(step) if not is_note(acl)) for step in STEPS}
        )

    def acls_of(self, step: StepName) -> tuple[Acl, ...]:
        acls: tuple[Acl, ...] = getattr(self, step)
        return acls


class AclRequest(msgspec.Struct, frozen=True):
    """The ACLs of one step that a single request creates or deletes."""

    step: StepName
    acls: tuple[Acl, ...]

    @property
    def is_creation(self) -> bool:
        return self.step.startswith("create")


def make_changes(present: Iterable[Acl], desired: Iterable[Acl], selector: Selector) -> AclChanges:
    """Return the changes after which the managed ACLs are the desired ones.

    A present ACL with a code that this version does not know is never deleted. An ACL that Kafka
    cannot judge counts as a DENY, whatever its permission, because it denies everything to
    everyone.
    """
    wanted = dict.fromkeys(desired)
    _check_desired(wanted, selector)
    held = set(present)
    return arrange(
        (acl for acl in wanted if acl not in held),
        (
            acl
            for acl in held
            if acl not in wanted and has_known_codes(acl) and selector.manages(acl)
        ),
    )


def arrange(created: Iterable[Acl], deleted: Iterable[Acl]) -> AclChanges:
    """Return these changes by step, sorted.

    The note of a grant is in the step of its ACL, directly behind it. Other notes are created
    before everything else and deleted after it.
    """
    created = sorted(created, key=lambda acl: (not is_note(acl), astuple(acl)))
    deleted = sorted(deleted, key=lambda acl: (is_note(acl), astuple(acl)))
    return AclChanges(
        create_deny=tuple(_take(created, is_allow=False)),
        create_allow=tuple(_take(created, is_allow=True)),
        delete_allow=tuple(_take(deleted, is_allow=True)),
        delete_deny=tuple(_take(deleted, is_allow=False)),
    )


def _take(acls: Iterable[Acl], *, is_allow: bool) -> Iterator[Acl]:
    for acl, *notes in join_notes(acls):
        if is_grant(acl) is is_allow:
            yield acl
            yield from notes


def _check_desired(desired: Iterable[Acl], selector: Selector) -> None:
    outside: list[Acl] = []
    for acl in desired:
        fault = find_creation_fault(acl)
        if fault is not None:
            raise PlanError("", f"Kafka would refuse to create the desired {acl}: {fault}")
        if not selector.manages(acl):
            outside.append(acl)
    if outside:
        more = f", and {len(outside) - 1} more" if len(outside) > 1 else ""
        raise PlanError(
            "",
            f"the plan does not manage the desired {outside[0]}{more}: select it too, or leave it "
            "out of the desired ACLs",
        )


def check_size(changes: AclChanges, place: str = "", *, batches: bool, effect: str = "") -> None:
    """Check that one request can make all changes, unless ``batches`` allows several."""
    if changes.count > RECORDS_PER_REQUEST_MAX and not batches:
        raise PlanError(
            place,
            f"{changes.count} changes: expected at most {RECORDS_PER_REQUEST_MAX}, as many as one"
            f" request of Kafka can make. If they are intended, pass --batches{effect}",
        )


def split_requests(
    changes: AclChanges, *, acls_max: int = RECORDS_PER_REQUEST_MAX
) -> Iterator[AclRequest]:
    """Yield the requests of a plan in their order. Each has changes of one step."""
    for step in STEPS:
        for acls in split_joined(changes.acls_of(step), acls_max=acls_max):
            yield AclRequest(step, tuple(acls))
