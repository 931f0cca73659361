"""How the daemon follows a live cluster: where it connects, what it serves, and what it writes.

Source: Kafka 4.3 QuorumConfig, ClientUtils, SaslConfigs; KIP-853 for bootstrap servers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from authorizerd.config.tls import TlsSettings


class SourceKind(StrEnum):
    """Where the ACLs come from, as in ``authorizerd.source``."""

    LOG = "log"
    QUORUM = "quorum"
    BROKERS = "brokers"


class Writes(StrEnum):
    """What happens to changes of ACLs that clients send to a daemon that follows a cluster."""

    REFUSE = "refuse"
    AS_SELF = "as-self"
    FORWARD = "forward"


class Privileged(StrEnum):
    """Kinds of principals that are forwarded only if they are named.

    The controllers trust the principal of a forwarded request, so forwarding these would give more
    rights than the principal has there.
    """

    ANONYMOUS = "anonymous"
    SUPER_USERS = "super-users"
    LOCAL_USERS = "local-users"


@dataclass(frozen=True, slots=True)
class Server:
    """An address to connect to first. ``node_id`` is known in ``controller.quorum.voters`` only."""

    host: str
    port: int
    node_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    """The user that the daemon logs in as: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    """How to follow a cluster.

    ``request_timeout_ms`` is for requests that read, ``write_timeout_ms`` for those that change.
    ``log_in`` and ``tls`` are None if the security protocol has none. ``stale_max_ms`` is the time
    after which decisions stop if contact is lost. ``serves_copy`` allows decisions from the local
    copy before the first contact. ``forwarded`` has the principals whose changes are forwarded.
    ``cluster_id`` is the only cluster to follow, None if no key names it.
    """

    kind: SourceKind
    servers: tuple[Server, ...]
    log_in: LogIn | None = None
    tls: TlsSettings | None = None
    client_id: str = "authorizerd"
    request_timeout_ms: int = 30_000
    write_timeout_ms: int = 30_000
    cluster_id: str | None = None
    poll_ms: int = 5_000
    stale_max_ms: int = 300_000
    serves_copy: bool = False
    writes: Writes = Writes.REFUSE
    forwarded: frozenset[str] = frozenset()
    forwarded_privileged: frozenset[Privileged] = frozenset()

    @property
    def username(self) -> str | None:
        """The name to log in with, None without a log-in."""
        return None if self.log_in is None else self.log_in.username
