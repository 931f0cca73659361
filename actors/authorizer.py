"""KIP-504's Authorizer: the interface that listeners use.

**Invariant:** a listener uses an authorizer only through this interface. ``authorize`` is
synchronous and never blocks. Operations that write or fetch return one awaitable per item.

A class named by ``authorizer.class.name`` derives from it, and overrides the methods that it
changes. The daemon passes one argument to its constructor: the built-in authorizer over the
daemon's log, which it may wrap. The daemon calls all methods in the event loop's thread.

Source: KIP-504; KIP-679 (authorizeByResourceType), KIP-801 (aclCount).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, Self, TypeAlias

import msgspec

from authorizerd.acl.audit.caller import UNIX_ADDRESS, AuditedCaller, Requester
from authorizerd.acl.by_resource_type import (
    PROBE_NAME,
    check_by_resource_type,
    scan_by_resource_type,
)
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.expected_offset import ExpectedOffset
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import Steps
from authorizerd.acl.updates import Deleted
from authorizerd.actors.completion import Completion
from authorizerd.actors.published_state import NOT_LOADED
from authorizerd.config.values import SecurityProtocol

_HOST_SHOWN_MAX: Final = 100


class Authentication(StrEnum):
    """How a caller has proved its principal to this daemon."""

    NONE = "none"
    """Not authenticated: a listener without authentication, and no client certificate."""
    CERTIFICATE = "certificate"
    PLAIN = "PLAIN"
    """By a password from the daemon's own configuration."""
    SCRAM = "SCRAM"
    """By a credential from the metadata log."""
    TOKEN = "OAUTHBEARER"  # noqa: S105 - the mechanism's name
    """By a token whose issuer has signed it."""
    FORWARDED = "forwarded"
    """To another server, which names the principal in an Envelope."""


class RequestContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A principal, its address, and its request.

    ``host`` is an IP address as Java's ``getHostAddress`` prints it (use
    ``acl.hosts.host_address``), or None if it is unknown. ``request_name`` is the name of the API,
    for the audit log; ``request_type`` and ``request_version`` are its API key and version.
    ``security_protocol`` is the listener's. These three are None for questions of the decision
    ports, which are about a request that the daemon does not see. ``authentication`` says how the
    daemon knows the principal. ``guard`` is the condition of a change, see
    ``Authorizer.acl_offset``. ``requester`` is the asking party if it is not the principal itself:
    the caller of a decision port, or the broker that forwards the request.
    """

    principal: str
    host: str | None
    request_name: str
    listener_name: str = ""
    client_id: str | None = None
    correlation_id: int = 0
    security_protocol: SecurityProtocol | None = None
    request_type: int | None = None
    request_version: int | None = None
    authentication: Authentication = Authentication.NONE
    guard: ExpectedOffset | None = None
    requester: Requester | None = None

    def __post_init__(self) -> None:
        """Raise InvalidQuestionError if ``host`` is not in that form: rules match hosts as text."""
        if self.host is not None and host_address(self.host) != self.host:
            raise InvalidQuestionError(
                f"invalid host {self.host[:_HOST_SHOWN_MAX]!r}:"
                " expected an IP address as acl.hosts.host_address returns it, or None"
            )

    def audited(self) -> AuditedCaller:
        """Return the part of an audit line about the caller."""
        if self.requester is not None:
            return self.requester.audited()
        host = UNIX_ADDRESS if self.host is None else self.host
        return AuditedCaller(self.authentication.value, self.principal, host)


class Action(msgspec.Struct, frozen=True, gc=False):
    """One operation that a request needs.

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
    """Return the first action of a question by resource type.

    Its denial is logged at TRACE.

    Source: Kafka 4.3 Authorizer.authorizeByResourceType.
    """
    return Action(
        operation, resource_type, PROBE_NAME, resource_reference_count=0, log_if_denied=False
    )


Authorize: TypeAlias = Callable[[RequestContext, Sequence[Action]], list[bool]]
"""The type of ``Authorizer.authorize``."""


class ServerEndpoint(str):
    """An address of the server, as its clients use it. The text is ``host:port`` or ``unix:PATH``.

    Attributes:
        listener_name: the listener, or the name of the decision port.
        security_protocol: PLAINTEXT or SSL for a decision port, which has no SASL authentication.
        host: an IPv6 host has no brackets; empty for a Unix socket.
        port: 0 for a Unix socket.
        path: the path of a Unix socket, else None.
    """

    __slots__ = ("host", "listener_name", "path", "port", "security_protocol")

    listener_name: str
    security_protocol: SecurityProtocol
    host: str
    port: int
    path: str | None

    def __new__(
        cls,
        listener_name: str,
        security_protocol: SecurityProtocol,
        *,
        host: str = "",
        port: int = 0,
        path: str | None = None,
    ) -> Self:
        shown = f"[{host}]" if ":" in host else host
        self = super().__new__(cls, f"{shown}:{port}" if path is None else f"unix:{path}")
        self.listener_name, self.security_protocol = listener_name, security_protocol
        self.host, self.port, self.path = host, port, path
        return self


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The server in which an authorizer runs.

    ``cluster_id`` is empty while it is unknown: see ``Authorizer.learn_cluster_id``. ``endpoints``
    are the advertised addresses by listener name, including those of the decision ports. Kafka's
    ``interBrokerEndpoint`` is absent: no brokers connect to each other here.
    """

    cluster_id: str
    node_id: int
    endpoints: Mapping[str, ServerEndpoint]
    early_start_listeners: frozenset[str]


class Authorizer(ABC):
    """Manage ACLs, and use them to decide requests."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Accept the settings: every key of the configuration, as text.

        The daemon calls this once, before anything else.

        Raises:
            ValueError: a value is invalid. The text names it, and the daemon does not start.
        """
        return

    def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
        """Return a completion for each endpoint, which is done when the endpoint may open.

        The daemon calls this once. If a completion fails, the daemon ends.
        """
        return {name: Completion.of(None) for name in server_info.endpoints}

    def learn_cluster_id(self, cluster_id: str) -> None:
        """Accept the id of the followed cluster, if it was unknown at ``start``.

        The daemon calls this at most once, before it reports that the ACLs are loaded. If it
        raises, the daemon ends.
        """
        return

    def serves(self, principal: str) -> bool:
        """Return True if this principal gets answers now.

        If not, listeners answer its requests with AUTHORIZER_NOT_READY.
        """
        return True

    @property
    def not_ready_reason(self) -> str:
        """Return the reason for principals that are not served, without a final period."""
        return NOT_LOADED

    @abstractmethod
    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        """Return for each action, in order, whether it is allowed.

        All answers use one state of the ACLs.

        Raises:
            NotReadyError: the ACLs are not loaded, and the principal is not a super user.
            InvalidQuestionError: questions about this principal are invalid.
        """

    def pinned(self) -> Authorize:
        """Return an ``authorize`` whose calls all use the current state.

        Listeners use it to ask about many actions in slices. The default returns ``authorize``
        itself, each call of which may use a newer state.
        """
        return self.authorize

    def authorize_by_resource_type(
        self, context: RequestContext, operation: int, resource_type: int
    ) -> Steps[bool]:
        """Return, in steps, True if the principal may do this to some resource of the type.

        The default asks ``authorize`` about one resource, then reads ``acls``. Raises as
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
        """Create ACLs.

        Return one completion per item, in order, which fails with that item's error.
        """

    @abstractmethod
    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        """Delete ACLs. Return one completion per filter, in order."""

    @abstractmethod
    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        """Yield the ACLs that ``filter`` matches, in slices, all of one state.

        Other tasks run between two slices, so each must take little time. A slice may be empty.

        Raises:
            NotReadyError: there is no state to list.
        """

    def acl_offset(self) -> int | None:
        """Return the log offset of the state that ``acls`` lists now, or None.

        An authorizer that returns an offset checks ``context.guard`` of each change in the same
        step in which it decides on the change, and sets its ``written_offset``. A wrapper of the
        built-in authorizer may return its offset if it passes on each request once, with its
        context. By default there is no offset, and listeners reject changes with a condition.
        """
        return None

    def acl_count(self) -> int:
        """Return the number of ACLs, or -1 if it is not known."""
        return -1

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        """The keys that ``reconfigure`` can change while the daemon runs."""
        return frozenset()

    def validate_reconfiguration(self, configs: Mapping[str, str]) -> None:
        """Check whether ``reconfigure`` would accept ``configs``. Change nothing.

        Raises:
            ValueError: a value is invalid. The text names it.
        """
        return

    def reconfigure(self, configs: Mapping[str, str]) -> None:
        """Apply ``configs``: all keys, changed or not. They have been validated."""
        return

    def close(self) -> None:
        """Close the authorizer. Fail the completions of ``start`` that are not done."""
        return
