"""Write ACLs as a topology of Julie Ops, and a file of custom roles as the second document.

A role of Julie stands for several ACLs, so it is written only if the principal has all of them. All
other ACLs of a principal become a custom role.

**Invariant:** no role is written unless all ACLs that it stands for are in the set.

All topics are special topics, because Julie derives other topics' names from their project. Julie
creates a special topic that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import astuple

from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.management.formats import julie_roles
from authorizerd.management.formats.julie_roles import make_role, why_not_custom
from authorizerd.management.formats.model import AclsWritten
from authorizerd.management.formats.values import allow, free_name, keep_writable, why_not_creatable
from authorizerd.management.formats.yaml_text import Node, write_yaml

_CONTEXT: Final = "exported"
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""The names that Kafka accepts for a topic."""


def write(acls: Sequence[Acl]) -> AclsWritten:
    """Return a topology, and the file of custom roles if there are any."""
    kept, losses = keep_writable(acls, _why_not)
    kept.sort(key=lambda acl: (acl.principal, astuple(acl)))
    topics: dict[str, dict[str, list[Node]]] = {}
    project: dict[str, Node] = {}
    custom: list[Node] = []
    applications: dict[str, list[Node]] = {"streams": [], "ksql": []}
    for principal, group in groupby(kept, key=lambda acl: acl.principal):
        theirs = list(group)
        roles = _Roles(principal, frozenset(theirs))
        for topic, kind, user in roles.users:
            topics.setdefault(topic, {}).setdefault(kind, []).append(user)
        for kind, application in roles.applications:
            applications[kind].append(application)
        if others := [acl for acl in theirs if acl not in roles.said]:
            name = free_name(f"ACLs of {principal}", project)
            project[name] = [{"principal": principal}]
            custom.append(make_role(name, others))
    project |= {key: value for key, value in applications.items() if value}
    special: list[Node] = [{"name": topic, **topics[topic]} for topic in sorted(topics)]
    documents: list[Node] = [
        {
            "context": _CONTEXT,
            "projects": [{"name": _CONTEXT, **project}] if project else [],
            "special_topics": special,
        }
    ]
    if custom:
        documents.append({"roles": custom})
    return AclsWritten(write_yaml(*documents), losses)


def _why_not(acl: Acl) -> str | None:
    if reason := why_not_creatable(acl):
        return reason
    if acl.permission_type != PermissionType.ALLOW:
        return "Julie has no rules that deny"
    return why_not_custom(acl)


class _Roles:
    """The roles of one principal, which stand for its ACLs and no others.

    Attributes:
        said: the ACLs that the roles stand for. users: for each consumer and producer, the topic,
            the list in it, and the entry. applications: for each application, the list and the
            entry.
    """

    def __init__(self, principal: str, acls: frozenset[Acl]) -> None:
        self._principal = principal
        self._acls = acls
        self.said: set[Acl] = set()
        self.users: list[tuple[str, str, Node]] = []
        self.applications: list[tuple[str, Node]] = []
        reads = self._names(ResourceType.TOPIC, Operation.READ)
        self._streams = self._prefixes(Operation.READ) if reads else []
        self._add_consumers()
        self._add_producers()
        self._add_applications()

    def _has(
        self,
        kind: ResourceType,
        name: str,
        *operations: Operation,
        pattern_type: PatternType = PatternType.LITERAL,
    ) -> bool:
        return all(
            allow(self._principal, operation, kind, name, pattern_type) in self._acls
            for operation in operations
        )

    def _names(
        self, kind: ResourceType, *operations: Operation, is_prefix: bool = False
    ) -> list[str]:
        """Return the names, or the prefixes, with all these operations, sorted."""
        pattern_type = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
        names = {
            acl.resource_name
            for acl in self._acls
            if (acl.resource_type, acl.pattern_type) == (kind, pattern_type)
        }
        return sorted(
            name for name in names if self._has(kind, name, *operations, pattern_type=pattern_type)
        )

    def _patterns(self, kind: ResourceType, *operations: Operation) -> list[str]:
        """Return the names with all these operations, and the prefixes with ``*``, sorted."""
        names = self._names(kind, *operations)
        prefixes = self._names(kind, *operations, is_prefix=True)
        # A literal name that ends with * would be read as a prefix.
        literal = (name for name in names if name == WILDCARD or not name.endswith(WILDCARD))
        return sorted((*literal, *(prefix + WILDCARD for prefix in prefixes)))

    def _topics(self, *operations: Operation) -> list[str]:
        return list(filter(_TOPIC.fullmatch, self._names(ResourceType.TOPIC, *operations)))

    def _say(self, acls: Iterator[Acl]) -> None:
        said = set(acls)
        assert said <= self._acls
        self.said |= said

    def _add_consumers(self) -> None:
        topics = self._topics(Operation.DESCRIBE, Operation.READ)
        groups = self._patterns(ResourceType.GROUP, Operation.READ)
        if not groups:
            return
        for number, topic in enumerate(topics):
            # Any topic can name a group, so the first topic names all groups.
            for group in groups if number == 0 else groups[:1]:
                self._say(julie_roles.consume(self._principal, topic, group))
                self.users.append(
                    (topic, "consumers", {"principal": self._principal, "group": group})
                )

    def _add_producers(self) -> None:
        topics = self._topics(Operation.DESCRIBE, Operation.WRITE)
        writes = (Operation.DESCRIBE, Operation.WRITE)
        is_idempotent = (
            allow(self._principal, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER) in self._acls
        )
        ids = self._patterns(ResourceType.TRANSACTIONAL_ID, *writes) if is_idempotent else []
        by_streams = {
            prefix + WILDCARD for prefix in self._streams if self._is_exactly_once(prefix)
        }
        ids = [pattern for pattern in ids if pattern not in by_streams]
        for number, topic in enumerate(topics):
            # Julie takes one producer of each principal from a topic, with one transactional id.
            transactional_id = ids[number] if number < len(ids) else None
            says_idempotent = is_idempotent and not ids and number == 0
            self._say(
                julie_roles.produce(self._principal, topic, transactional_id, says_idempotent)
            )
            user: dict[str, Node] = {"principal": self._principal}
            if transactional_id is not None:
                user["transactionId"] = transactional_id
            if says_idempotent:
                user["idempotence"] = True
            self.users.append((topic, "producers", user))

    def _add_applications(self) -> None:
        for prefix in self._streams:
            # An application of Kafka Streams reads at least one topic.
            read = (
                self._unsaid(Operation.READ) or self._names(ResourceType.TOPIC, Operation.READ)[:1]
            )
            self._add_stream(prefix, read, self._unsaid(Operation.WRITE))
        for prefix in self._prefixes(Operation.ALL):
            read, written = self._unsaid(Operation.READ), self._unsaid(Operation.WRITE)
            acls = julie_roles.run_ksql_application(self._principal, prefix, read, written)
            self._say(acls)
            self._add_application("ksql", prefix, read, written, {})

    def _prefixes(self, operation: Operation) -> list[str]:
        """Return the prefixes of applications: those with all topic operations, and this operation
        on groups."""
        kind = ResourceType.GROUP
        return [
            prefix
            for prefix in self._names(ResourceType.TOPIC, Operation.ALL, is_prefix=True)
            if self._has(kind, prefix, operation, pattern_type=PatternType.PREFIXED)
        ]

    def _is_exactly_once(self, prefix: str) -> bool:
        kind, prefixed = ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED
        return self._has(kind, prefix, Operation.WRITE, Operation.DESCRIBE, pattern_type=prefixed)

    def _unsaid(self, operation: Operation) -> list[str]:
        """Return the topics with this operation that no role stands for so far."""
        return [
            name
            for name in self._names(ResourceType.TOPIC, operation)
            if allow(self._principal, operation, ResourceType.TOPIC, name) not in self.said
        ]

    def _add_stream(self, prefix: str, read: list[str], written: list[str]) -> None:
        is_exactly_once = self._is_exactly_once(prefix)
        self._say(julie_roles.stream(self._principal, prefix, read, written, is_exactly_once))
        extra: dict[str, Node] = {"exactlyOnce": True} if is_exactly_once else {}
        self._add_application("streams", prefix, read, written, extra)

    def _add_application(
        self, kind: str, prefix: str, read: list[str], written: list[str], extra: dict[str, Node]
    ) -> None:
        topics: dict[str, Node] = {"read": [*read], "write": [*written]}
        application: dict[str, Node] = {
            "principal": self._principal,
            "applicationId": prefix,
            **extra,
            "topics": {key: value for key, value in topics.items() if value},
        }
        self.applications.append((kind, application))
