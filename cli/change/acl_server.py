"""The server on which a plan is carried out: what it lists, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from authorizerd.acl.model import Acl
from authorizerd.acl.plan.changes import AclRequest
from authorizerd.protocol.kafka.error_codes import ApiError


@dataclass(frozen=True, slots=True)
class Listed:
    """All ACLs of a server by derived ids; ``offset`` is None if the server does not compare."""

    acls: Mapping[bytes, Acl]
    offset: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a request.

    Attributes:
        errors: those of its items.
        offset: where it was written, if the server has compared.
        unmatched: ACLs that the request should have deleted, but did not find.
    """

    errors: tuple[ApiError, ...] = ()
    offset: int | None = None
    unmatched: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No valid answer came, so the request may have been applied, or may still be."""

    reason: str


class AclServer(Protocol):
    """The server whose ACLs are changed."""

    async def list_acls(self) -> Listed:
        """Return all ACLs.

        Raises:
            StartError: no server lists them.
        """

    async def send(self, request: AclRequest, expected_offset: int | None) -> Answered | Unanswered:
        """Send a request once.

        Args:
            expected_offset: the server must reject the request if an ACL has changed since. None:
                it does not compare.

        Raises:
            StartError: the request was not sent.
        """
