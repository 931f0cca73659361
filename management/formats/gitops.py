"""The desired state file of kafka-gitops: services and users with roles, and their own ACLs.

kafka-gitops removes every ACL that its state file lacks, so the scope is everything. For Confluent
Cloud, whose principals are ids of service accounts, the scope is only the principals in the file. A
file with topics only has no ACLs and no scope.

Source: kafka-gitops 0.2.15: StateManager, RoleService, AbstractService, ParserService, and the
three kinds of services.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import astuple, replace

from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.management.formats import values
from authorizerd.management.formats.gitops_roles import ROLES, SERVICES
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Loss, Scope
from authorizerd.management.formats.parsing import parse_document
from authorizerd.management.formats.yaml_text import Node, write_yaml

_SECTIONS: Final = (
    "settings",
    "services",
    "topics",
    "users",
    "customServiceAcls",
    "customUserAcls",
)
_SHAPE: Final = values.AclShape(
    {
        "name": "resource_name",
        "type": "resource_type",
        "pattern": "pattern_type",
        "host": "host",
        "operation": "operation",
        "permission": "permission_type",
    },
    {
        "resource_type": values.by_name(*values.OLD_RESOURCE_TYPES),
        "pattern_type": values.by_name(*values.PATTERN_TYPES),
        "operation": values.by_name(*values.OLD_OPERATIONS),
        "permission_type": values.by_name(*values.PERMISSION_TYPES),
    },
)


def read(text: str) -> AclsRead:
    state = _State(parse_document(text, merges=False))
    acls = tuple(dict.fromkeys((*state.read_services(), *state.read_users())))
    scope: Scope | None = Scope(frozenset(acl.principal for acl in acls))
    if not state.is_cloud and state.has_owners:
        scope = None
    return AclsRead(acls, tuple(state.losses), scope)


class _State:
    """A state file: its settings, which apply to every service, and its losses so far."""

    def __init__(self, value: values.Value) -> None:
        values.check_keys(values.DOCUMENT, value, required=(), optional=_SECTIONS)
        self._sections: dict[str, dict[str, values.Value]] = {
            key: values.check_mapping(key, values.or_empty(value.get(key), {})) for key in _SECTIONS
        }
        both = self._sections["services"].keys() & self._sections["users"].keys()
        for name in sorted(both):
            # kafka-gitops numbers the ACLs of each name, so the user's ACLs replace the service's.
            raise AclTextError(f"users.{name}", "expected another name: a service has this name")
        self.has_owners = not value.keys() <= {"settings", "topics"}
        self.losses: list[Loss] = []
        self.is_cloud = False
        self._describes_topics = False
        self._read_settings(self._sections["settings"])

    def _read_settings(self, settings: dict[str, values.Value]) -> None:
        place = "settings"
        values.check_keys(
            place, settings, required=(), optional=("ccloud", "topics", "services", "files")
        )
        if "ccloud" in settings:
            values.check_keys(f"{place}.ccloud", settings["ccloud"], required=("enabled",))
            self.is_cloud = values.check_flag(
                f"{place}.ccloud.enabled", settings["ccloud"]["enabled"]
            )
        if self.is_cloud:
            self._lose(
                f"{place}.ccloud",
                "kafka-gitops takes the ids of Confluent Cloud's service accounts as principals, "
                "instead of those in this file",
            )
        services = values.check_mapping(f"{place}.services", settings.get("services", {}))
        values.check_keys(f"{place}.services", services, required=(), optional=("acls",))
        acls = values.check_mapping(f"{place}.services.acls", services.get("acls", {}))
        key = "describeTopicEnabled"
        values.check_keys(f"{place}.services.acls", acls, required=(), optional=(key,))
        self._describes_topics = values.check_flag(
            f"{place}.services.acls.{key}", acls.get(key, False)
        )
        files = values.check_mapping(f"{place}.files", settings.get("files", {}))
        values.check_keys(
            f"{place}.files", files, required=(), optional=("services", "topics", "users")
        )
        for section in ("services", "users"):
            if section in files:
                raise AclTextError(
                    f"{place}.files.{section}",
                    f"expected all {section} in one file: copy those of {files[section]} into it",
                )

    def _lose(self, place: str, reason: str) -> None:
        self.losses.append(Loss(None, f"{place}: {reason}"))

    def read_services(self) -> Iterator[Acl]:
        custom = self._sections["customServiceAcls"]
        for name, service in self._sections["services"].items():
            place = f"services.{name}"
            yield from self._read_service(place, name, service)
            yield from self._read_custom("customServiceAcls", name, None)
        self._lose_unlisted("customServiceAcls", custom, "services")

    def _read_service(self, place: str, name: str, value: values.Value) -> Iterator[Acl]:
        service = values.check_mapping(place, value)
        make = values.check_word(f"{place}.type", service.get("type"), SERVICES)
        principal = self._principal(place, service)
        for acl in make(place, name, service, self._describes_topics):
            if principal is not None:
                yield values.check_creatable(place, replace(acl, principal=principal))

    def read_users(self) -> Iterator[Acl]:
        custom = self._sections["customUserAcls"]
        for name, user in self._sections["users"].items():
            place = f"users.{name}"
            values.check_keys(place, user, required=(), optional=("principal", "roles"))
            principal = self._principal(place, user)
            for role_place, role in values.check_list(
                f"{place}.roles", user.get("roles", []), "roles"
            ):
                word = ascii_lower(values.check_text(role_place, role))
                for acl in values.check_word(role_place, word, ROLES):
                    if principal is not None:
                        yield values.check_creatable(place, replace(acl, principal=principal))
            yield from self._read_custom("customUserAcls", name, principal)
        self._lose_unlisted("customUserAcls", custom, "users")

    def _principal(self, place: str, value: dict[str, values.Value]) -> str | None:
        """Return the principal; None if it is missing because Confluent Cloud assigns it."""
        if "principal" in value:
            return values.check_text(f"{place}.principal", value["principal"])
        if not self.is_cloud:
            raise AclTextError(place, "missing key 'principal'")
        self._lose(place, "only Confluent Cloud knows its principal")
        return None

    def _read_custom(self, section: str, name: str, inherited: str | None) -> Iterator[Acl]:
        place = f"{section}.{name}"
        for key, value in values.check_mapping(
            place, self._sections[section].get(name, {})
        ).items():
            acl = _read_details(f"{place}.{key}", value)
            fields = (
                {"principal": inherited}
                if value.get("principal") is None and inherited is not None
                else value
            )
            principal = self._principal(f"{place}.{key}", fields)
            if principal is not None:
                yield values.check_creatable(f"{place}.{key}", replace(acl, principal=principal))

    def _lose_unlisted(self, section: str, custom: dict[str, values.Value], owners: str) -> None:
        for name in sorted(custom.keys() - self._sections[owners].keys()):
            self._lose(
                f"{section}.{name}",
                f"kafka-gitops ignores these ACLs, because {owners} does not list {name}",
            )


def _read_details(place: str, value: values.Value) -> Acl:
    """Return one of the file's own ACLs; its principal is added later."""
    values.check_keys(
        place,
        value,
        required=("name", "type", "pattern", "operation"),
        optional=("principal", "host", "permission"),
    )
    defaults = {"host": WILDCARD, "permission": PermissionType.ALLOW.name}
    return _SHAPE.read(place, {**defaults, **value}, principal="")


def write(acls: Sequence[Acl]) -> AclsWritten:
    """Return a user for each principal, with its ACLs in ``customUserAcls``, all sorted."""
    kept, losses = values.keep_writable(
        acls, lambda acl: values.why_not_creatable(acl) or values.why_not_old(acl, "kafka-gitops")
    )
    users: dict[str, Node] = {}
    custom: dict[str, Node] = {}
    ordered = sorted(kept, key=lambda acl: (acl.principal, astuple(acl)))
    for principal, group in groupby(ordered, key=lambda acl: acl.principal):
        name = values.free_name(principal, users)
        users[name] = {"principal": principal}
        details: dict[str, Node] = {}
        for acl in group:
            details[values.free_name(_describe(acl), details)] = {**_SHAPE.write(acl)}
        custom[name] = details
    return AclsWritten(write_yaml({"users": users, "customUserAcls": custom}), losses)


def _describe(acl: Acl) -> str:
    words = (
        PermissionType(acl.permission_type).name,
        Operation(acl.operation).name,
        ResourceType(acl.resource_type).name,
        acl.resource_name,
    )
    pattern = f" ({PatternType(acl.pattern_type).name})"
    host = "" if acl.host == WILDCARD else f" from {acl.host}"
    return " ".join(words) + pattern + host
