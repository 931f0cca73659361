"""The document of a plan: JSON that people review and ``authorizerd acls apply`` carries out.

**Invariant:** a document that is read leads from exactly one state to exactly one other: its steps
account for the difference of the two digests, and its checksum covers every value. So a plan that
was edited by hand is rejected. The same plan always has the same bytes. The checksum depends on the
values only, not on blanks or on the order of keys. It is not a signature: a person who can write
the file can also compute it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import asdict

from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS
from authorizerd.acl.model import Acl, PermissionType
from authorizerd.acl.notes import is_note
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.text.named_acl import NamedAcl, name_acl, parse_acl
from authorizerd.acl.validation import find_creation_fault
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.plan.changes import STEPS, AclChanges, StepName
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.selector import Everything, Managed, Selector, check_entry
from authorizerd.management.plan.state import DIGEST_DIGITS, change_digest
from authorizerd.management.plan.traffic import TrafficEvidence

FORMAT: Final = "authorizerd-acl-plan"
VERSION: Final = 1

Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{DIGEST_DIGITS}}}$")]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

_CHECKSUM: Final = "sha256"
"""The key of the checksum in the document. The checksum does not cover itself."""
_GROUPS: Final = "groups"
_MAKE_ANEW: Final = "make the plan again with 'authorizerd acls plan'"
_EXPECTED: Final = "expected a plan, as 'authorizerd acls plan --out' writes it"
_PLACE: Final = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set of ACLs: their number, and their digest, which ``management.plan.state`` makes."""

    acls: Count
    digest: Digest


class PlanSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ACLs that the plan was made for.

    Attributes:
        place: the kind of place: log, checkpoint, file or brokers.
        name: a path, or the addresses of brokers.
        offset: the log offset of the ACLs; null if a broker or a file lists them.
        acls, digest: see ``State``.
    """

    place: str
    name: str
    offset: int | None
    acls: Count
    digest: Digest

    @property
    def state(self) -> State:
        return State(self.acls, self.digest)


class PlanSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings by which the plan was checked, with Kafka's names; null if unknown."""

    super_users: tuple[str, ...] | None = msgspec.field(name=SUPER_USERS)
    allow_everyone: bool | None = msgspec.field(name=ALLOW_EVERYONE)


class PlannedAcl(NamedAcl, frozen=True, forbid_unknown_fields=True, gc=False):
    """An ACL of a step.

    Attributes:
        groups: set if groups give the ACL, or no longer give it: their names, if they are known.
    """

    groups: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class PlanSteps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ACLs that each step creates or deletes, in the order of the steps."""

    create_deny: tuple[PlannedAcl, ...]
    create_allow: tuple[PlannedAcl, ...]
    delete_allow: tuple[PlannedAcl, ...]
    delete_deny: tuple[PlannedAcl, ...]


class PlanCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of one check of the plan.

    Attributes:
        name: what was checked: ``tests`` or ``traffic``.
        breaks: True if the plan must not be applied without a person's decision.
        summary: the result in one line.
        counts: figures by their names.
        broken: what would break, an item in one line each.
        notes: reasons why the check may prove less than it seems to, as sentences.
        evidence: the recorded traffic, for the check ``traffic``.
    """

    name: str
    breaks: bool
    summary: str
    counts: Mapping[str, int] = {}
    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    evidence: TrafficEvidence | None = None


class ChangeReason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why people want a change: the ACL of a step, and their words."""

    acl: NamedAcl
    reason: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan. It is written by ``encode_plan`` and read by ``decode_plan``.

    Attributes:
        made_for: the state that it leads from.
        leads_to: the state after all steps.
        manages: what the plan manages: entries, or ``everything``.
        warnings: sentences about what a reviewer should know.
        checks: what ``--tests`` and ``--traffic`` found.
        group_set: the set whose groups were expanded, if any were.
        reasons: why people want some of the changes. Without any, the document has no such field.
    """

    format: Literal["authorizerd-acl-plan"] = FORMAT
    version: Literal[1] = VERSION
    made_for: PlanSource
    leads_to: State
    settings: PlanSettings
    manages: tuple[Managed, ...] | Everything
    warnings: tuple[str, ...]
    checks: tuple[PlanCheck, ...]
    group_set: str | msgspec.UnsetType = msgspec.UNSET
    steps: PlanSteps
    reasons: tuple[ChangeReason, ...] = ()

    @property
    def breaks(self) -> bool:
        """Whether a check found that the plan would break something."""
        return any(check.breaks for check in self.checks)

    @property
    def selector(self) -> Selector:
        return Selector(None if isinstance(self.manages, str) else self.manages)

    @property
    def changes(self) -> AclChanges:
        """The steps, with codes."""
        return AclChanges(
            **{step: tuple(map(parse_acl, getattr(self.steps, step))) for step in STEPS}
        )

    @property
    def group_reasons(self) -> dict[Acl, tuple[str, ...]]:
        """The groups that are the reason for changes; empty where they are not known."""
        return {
            parse_acl(each): each.groups
            for step in STEPS
            for each in getattr(self.steps, step)
            if each.groups is not msgspec.UNSET
        }


def name_steps(
    changes: AclChanges, reasons: Mapping[Acl, tuple[str, ...]] | None = None
) -> PlanSteps:
    """Return the steps with names.

    Args:
        reasons: the groups that are the reason, for each ACL that groups give or no longer give.
    """
    why = reasons or {}
    return PlanSteps(
        **{
            step: tuple(
                PlannedAcl(**asdict(name_acl(acl)), groups=why.get(acl, msgspec.UNSET))
                for acl in changes.acls_of(step)
            )
            for step in STEPS
        }
    )


def name_reasons(changes: AclChanges, reasons: Mapping[Acl, str]) -> tuple[ChangeReason, ...]:
    changed = (*changes.created, *changes.deleted)
    return tuple(ChangeReason(name_acl(acl), reasons[acl]) for acl in changed if acl in reasons)


def encode_plan(plan: Plan) -> bytes:
    """Return the document: JSON with one ACL in each line."""
    document = msgspec.to_builtins(plan)
    if not plan.reasons:
        del document["reasons"]
    document[_CHECKSUM] = _compute_checksum(document)
    return f"{_lay_out(document, '')}\n".encode()


def _lay_out(value: Any, indent: str) -> str:  # noqa: ANN401 - a JSON value
    """Return JSON in which only lists and objects of scalars are on one line."""
    items = list(value if _is_list(value) else ())
    if isinstance(value, dict):
        items = [each for key, each in value.items() if key != _GROUPS]  # an ACL is on one line
    if not any(isinstance(item, dict) or _is_list(item) for item in items):
        text = json.dumps(value, ensure_ascii=False)
        # A reviewer must see every character. So those that change the order of text are escaped.
        return text if text.isprintable() else json.dumps(value)
    inner = f"{indent}  "
    if isinstance(value, dict):
        lines = [
            f"{inner}{json.dumps(key)}: {_lay_out(each, inner)}" for key, each in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(f"{inner}{_lay_out(each, inner)}" for each in value) + f"\n{indent}]"


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def decode_plan(data: bytes) -> Plan:
    """Return the plan of a document."""
    # Imported here, because it loads PyYAML, which making a plan does not need.
    from authorizerd.management.formats.parsing import parse_json

    try:
        value = parse_json(data.decode())
    except UnicodeDecodeError as error:
        raise PlanError(f"byte {error.start}", f"not valid UTF-8: {_MAKE_ANEW}") from error
    except AclTextError as error:
        raise PlanError(error.place, f"{error.reason}: {_EXPECTED}") from error
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        reason = f"expected text, found half of a surrogate pair: {_MAKE_ANEW}"
        raise PlanError("document", reason) from error
    _check_version(value)
    checksum = value.pop(_CHECKSUM, None)
    try:
        plan = msgspec.convert(value, Plan)
    except msgspec.ValidationError as error:
        raise _invalid(error) from error
    _check_manages(plan)
    _check_steps(plan)
    if checksum != _compute_checksum(value):
        reason = (
            f"it does not fit the content, so the plan was changed after it was made: {_MAKE_ANEW}"
        )
        raise PlanError(_CHECKSUM, reason)
    return plan


def _check_version(value: Any) -> None:  # noqa: ANN401 - a JSON value
    """Reject anything but a plan of this version, before its fields are read."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise PlanError("format", f"expected {FORMAT}: {_EXPECTED}")
    if type(value.get("version")) is not int or value["version"] != VERSION:
        raise PlanError(
            "version",
            f"expected {VERSION}, found {json.dumps(value.get('version'))}: use the version of "
            f"authorizerd that made the plan, or {_MAKE_ANEW}",
        )


def _invalid(error: msgspec.ValidationError) -> PlanError:
    found = _PLACE.fullmatch(str(error))
    reason, place = (str(error), "") if found is None else (found[1], found[2])
    return PlanError(place or "document", f"{reason}: {_MAKE_ANEW}")


def _check_manages(plan: Plan) -> None:
    if isinstance(plan.manages, str):
        return
    if not plan.manages:
        raise PlanError("manages", f"expected an entry, or everything, found none: {_MAKE_ANEW}")
    for number, entry in enumerate(plan.manages):
        check_entry(entry, f"manages[{number}]")


def _check_steps(plan: Plan) -> None:
    """Check each ACL of the steps, and that the steps lead from the first state to the second."""
    selector, changes, reasons = plan.selector, plan.changes, plan.group_reasons
    seen: set[Acl] = set()
    for place, step, acl in _places(changes):
        # What groups make is managed by its notes, whatever the plan manages.
        is_managed = acl in reasons or is_note(acl) or selector.manages(acl)
        fault = _find_fault(step, acl, is_managed=is_managed)
        if fault is None and acl in seen:
            fault = "repeats an ACL of the plan"
        if fault is not None:
            raise PlanError(place, f"{fault}: {acl}: {_MAKE_ANEW}")
        seen.add(acl)
    before, after = plan.made_for.state, plan.leads_to
    count = before.acls + len(changes.created) - len(changes.deleted)
    if (count, change_digest(before.digest, changes)) != (after.acls, after.digest):
        raise PlanError(
            "steps",
            "they do not lead from the state of made_for to that of leads_to, so the plan was "
            f"changed after it was made: {_MAKE_ANEW}",
        )


def _places(changes: AclChanges) -> Iterator[tuple[str, StepName, Acl]]:
    for step in STEPS:
        for number, acl in enumerate(changes.acls_of(step)):
            yield f"steps.{step}[{number}]", step, acl


def _find_fault(step: StepName, acl: Acl, *, is_managed: bool) -> str | None:
    if not has_known_codes(acl):
        return "expected the names of codes that Kafka can create"
    permission = PermissionType.ALLOW if step.endswith("allow") else PermissionType.DENY
    if is_grant(acl) is not step.endswith("allow") and not is_note(acl):
        return f"expected an ACL with {permission.name}"
    if not is_managed:
        return "the plan does not manage this ACL"
    fault = find_creation_fault(acl) if step.startswith("create") else None
    return None if fault is None else f"Kafka would refuse to create it ({fault})"


def _compute_checksum(document: Mapping[str, Any]) -> str:
    covered = {key: value for key, value in document.items() if key != _CHECKSUM}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()
