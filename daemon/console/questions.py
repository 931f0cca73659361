"""Convert visitors' input, in Kafka's terms, to requests for the decision port (AuthZEN)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from authorizerd.acl.model import (
    CLUSTER_NAME,
    OPERATIONS,
    RESOURCE_TYPES,
    Operation,
    ResourceType,
)
from authorizerd.config.configuration import Configuration
from authorizerd.protocol.decisions.acl_filters import QueryError
from authorizerd.protocol.json_faults import quote

OPERATION_NAMES: Final = tuple(Operation(code).name for code in OPERATIONS)
RESOURCE_TYPE_NAMES: Final = tuple(ResourceType(code).name for code in RESOURCE_TYPES)
_TYPE_KEY: Final = "authorizerd.authzen.resource.types"
_SUBJECT_KEY: Final = "authorizerd.authzen.subject.types"


class Questions:
    """Makes requests from the fields ``principal``, ``operation``, ``resource_type`` and others.

    A field that is missing or invalid raises QueryError, which names it.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._subject_types: Final = {
            kafka: ours for ours, kafka in configuration.authzen_subject_types.items()
        }
        self._resource_types: Final = {
            kafka.name: ours for ours, kafka in configuration.authzen_resource_types.items()
        }

    def question(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Return a complete question."""
        return {
            "subject": self.subject(fields),
            "action": self.action(fields),
            "resource": self.resource(fields),
            "context": self.context(fields),
        }

    @property
    def principal_types(self) -> tuple[str, ...]:
        """Kafka's names of the principal types that can be asked about."""
        return tuple(self._subject_types)

    def subject(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Return the principal ``Type:name``. A name without a type is a user's."""
        principal = fields.get("principal", "")
        kind, colon, name = principal.partition(":")
        if not colon:
            kind, name = "User", principal
        if not name:
            raise QueryError("principal: expected Type:name, for example User:alice")
        return {"type": self.subject_type(kind), "id": name}

    def subject_type(self, kind: str) -> str:
        """Return AuthZEN's name of a principal type."""
        found = self._subject_types.get(kind)
        if found is None:
            known = ", ".join(self._subject_types)
            raise QueryError(
                f"principal: unknown type {quote(kind)}: expected one of {known} ({_SUBJECT_KEY})"
            )
        return found

    def action(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Return the operation."""
        name = fields.get("operation", "")
        if not name:
            raise QueryError("operation: choose one")
        return {"name": name}

    def resource(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Return the resource. The cluster needs no name."""
        kind = self.resource_type(fields)
        name = fields.get("resource_name", "")
        if not name and fields.get("resource_type") == ResourceType.CLUSTER.name:
            name = CLUSTER_NAME
        if not name:
            raise QueryError("resource name: expected the name of a resource")
        return {**kind, "id": name}

    def resource_type(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Return the type of resources."""
        kind = fields.get("resource_type", "")
        found = self._resource_types.get(kind)
        if found is None:
            known = ", ".join(self._resource_types)
            raise QueryError(
                f"resource type: {quote(kind)} is unknown: expected one of {known} ({_TYPE_KEY})"
            )
        return {"type": found}

    def context(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Return the host and the past moment, if they are given."""
        given = {"host": fields.get("host", ""), "as_of": fields.get("as_of", "")}
        return {name: value for name, value in given.items() if value}
