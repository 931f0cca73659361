"""KIP-504's Authorizer: the seam between what decides and the listeners that ask.

Law: a listener knows an authorizer by this protocol alone. ``authorize`` is synchronous and never
blocks; what has to be written or fetched is an awaitable an item.

A class that ``authorizer.class.name`` names derives from it, and inherits what it need not say
otherwise. It is made with one argument, the built-in authorizer over this daemon's log, so that it
may wrap it. All of its methods are called in the event loop's thread.

Source: KIP-504; KIP-679 (authorizeByResourceType), KIP-801 (aclCount).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from authorizerd.acl.by_resource_type import (
    PROBE_NAME,
    check_by_resource_type,
    scan_by_resource_type,
)
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import Steps
from authorizerd.acl.updates import Deleted
from authorizerd.actors.completion import Completion

_HOST_SHOWN_MAX: Final = 100


class RequestContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who asks, whence, and with which request.

    ``host`` is an IP address as Java's ``getHostAddress`` prints it (``acl.hosts.host_address``
    does), None if it is unknown. ``request_name`` is the API's, for the audit.
    """

    principal: str
    host: str | None
    request_name: str
    listener_name: str = ""
    client_id: str | None = None
    correlation_id: int = 0

    def __post_init__(self) -> None:
        """Raise InvalidQuestionError for any other host: rules match hosts as text."""
        if self.host is not None and host_address(self.host) != self.host:
            raise InvalidQuestionError(
                f"invalid host {self.host[:_HOST_SHOWN_MAX]!r}:"
                " expected an IP address as acl.hosts.host_address returns it, or None"
            )


class Action(msgspec.Struct, frozen=True, gc=False):
    """One thing that a request wants to do.

    The built-in authorizer rejects a ``pattern_type`` other than LITERAL, as Kafka's does.
    """

    operation: int
    resource_type: int
    resource_name: str
    pattern_type: PatternType = PatternType.LITERAL
    resource_reference_count: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True


def probe_of(operation: int, resource_type: int) -> Action:
    """Return what a question by resource type asks about first: a denial is logged at TRACE only.

    Source: Kafka 4.3 Authorizer.authorizeByResourceType.
    """
    return Action(
        operation, resource_type, PROBE_NAME, resource_reference_count=0, log_if_denied=False
    )


Authorize: TypeAlias = Callable[[RequestContext, Sequence[Action]], list[bool]]
"""What ``Authorizer.authorize`` is."""


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where an authorizer runs.

    ``endpoints`` are the advertised addresses, as ``host:port``, by listener name, those of the
    decision ports among them.
    """

    cluster_id: str
    node_id: int
    endpoints: Mapping[str, str]
    early_start_listeners: frozenset[str]


class Authorizer(Protocol):
    """Decides, and keeps the ACLs that it decides by."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take over the settings: every key of the configuration, as text; called first, once.

        Raises:
            ValueError: a value that cannot be used; the text names it. The daemon does not start.
        """
        return

    def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
        """Return for each endpoint when it may be opened; called once.

        One that fails ends the daemon.
        """
        return {name: Completion.of(None) for name in server_info.endpoints}

    def serves(self, principal: str) -> bool:
        """Say whether this principal is answered yet: all are once the ACLs are loaded."""
        return True

    @abstractmethod
    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        """Return whether each action is allowed, in order, all by one state of the ACLs.

        Raises:
            NotReadyError: the ACLs are not loaded, and the principal is no super user.
            InvalidQuestionError: no question can be about this principal.
        """

    def pinned(self) -> Authorize:
        """Return an ``authorize`` all of whose calls are judged by the state of now.

        A request that asks too much for one call is asked by one of these, in slices. By itself it
        is ``authorize``, whose every call may see a newer state.
        """
        return self.authorize

    def authorize_by_resource_type(
        self, context: RequestContext, operation: int, resource_type: int
    ) -> Steps[bool]:
        """Return, in steps, whether some resource of the type may be used so.

        By itself it asks ``authorize`` about one resource, then reads ``acls``. Raises as
        ``authorize``.
        """
        check_by_resource_type(operation, resource_type)
        if self.authorize(context, [probe_of(operation, resource_type)]) == [True]:
            return True
        acls = self.acls(AclFilter(resource_type))
        return (
            yield from scan_by_resource_type(
                acls, context.principal, context.host, operation, resource_type
            )
        )

    @abstractmethod
    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        """Create; one completion an item, in order, that fails with that item's error."""

    @abstractmethod
    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        """Delete; one completion a filter, in order."""

    @abstractmethod
    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        """Yield the ACLs that ``filter`` matches, in slices, all of one state.

        Others are served between two slices, so making one is short work. A slice may be empty.
        """

    def acl_count(self) -> int:
        """Return the number of ACLs, -1 where it is not known."""
        return -1

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        """The keys that ``reconfigure`` takes while the daemon runs."""
        return frozenset()

    def validate_reconfiguration(self, configs: Mapping[str, str]) -> None:
        """Say whether ``reconfigure`` would take ``configs``, and change nothing.

        Raises:
            ValueError: a value that cannot be used; the text names it.
        """
        return

    def reconfigure(self, configs: Mapping[str, str]) -> None:
        """Take over ``configs``, validated before: all keys, of which some have changed."""
        return

    def close(self) -> None:
        """End: what ``start`` has not completed fails."""
        return
