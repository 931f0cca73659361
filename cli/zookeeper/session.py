"""A session with ZooKeeper. Only this module and ``connections`` import kazoo.

kazoo answers in its own threads; the methods here block until they have the answer.

**Invariant:** a method ends within the connection's time limit, however often the connection is
lost. A request that changes something is sent once: if the connection is lost, its outcome is
unknown, and the caller must check. No password reaches a log: kazoo would log requests with
passwords, so its log is off.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from enum import Enum
from threading import Timer
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    MarshallingError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id

from authorizerd.cli.zookeeper.connections import ConnectionHandler
from authorizerd.cli.zookeeper.errors import INSTALL_COMMAND, SessionLostError, ZooKeeperError
from authorizerd.cli.zookeeper.options import Permission
from authorizerd.cli.zookeeper.settings import Ensemble, ZooKeeperSettings

REQUESTS_IN_FLIGHT_MAX: Final = 64
"""Maximum number of reads sent before the first answer."""
_POLL_SECONDS: Final = 0.02
_CLOSE_SECONDS_MAX: Final = 2.0
_LOST: Final = (
    ConnectionLoss,
    ConnectionClosedError,
    KazooTimeoutError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
_ROLLED_BACK: Final = (RolledBackError, RuntimeInconsistency)
"""The results of the operations before and after the failed one."""


class Znode(NamedTuple):
    """The data of a znode, and its version, which a change must name."""

    data: bytes
    version: int


class Check(NamedTuple):
    """Do nothing, but fail if the znode has a different version."""

    path: str
    version: int


class SetData(NamedTuple):
    """Replace the data of the znode with this version."""

    path: str
    data: bytes
    version: int


class Create(NamedTuple):
    """Create a znode. ``is_sequential``: ZooKeeper appends a number to the path."""

    path: str
    data: bytes
    permissions: tuple[Permission, ...]
    is_sequential: bool = False


class Outcome(Enum):
    """The outcome of operations that are carried out together or not at all."""

    DONE = "done"
    CONFLICT = "conflict"
    """Nothing was done: a znode has a different version, exists, or does not exist."""
    UNKNOWN = "unknown"
    """The connection was lost: it is unknown whether the operations were carried out."""


class Session:
    """A session; see ``open_session``.

    Every method raises ZooKeeperError if the request is refused, and SessionLostError if no server
    answers within the time limit.
    """

    def __init__(
        self, ensemble: Ensemble, settings: ZooKeeperSettings, handler: ConnectionHandler
    ) -> None:
        digest, sasl = settings.digest, settings.sasl
        self._settings = settings
        self._handler = handler
        self.name = f"zookeeper://{ensemble}"
        self._client = KazooClient(
            hosts=str(ensemble),
            timeout=settings.session_timeout_ms / 1000,
            handler=handler,
            auth_data=[("digest", f"{digest.username}:{digest.password}")] if digest else [],
            sasl_options=sasl and {"mechanism": "DIGEST-MD5", **asdict(sasl)},
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
            logger=_new_silent_logger(),
        )
        self._is_rejected = False
        self._client.add_listener(self._on_state)

    @property
    def is_authenticated(self) -> bool:
        return self._settings.is_authenticated

    def start(self) -> None:
        self._client.start_async()
        self._await_connection(self._new_deadline())

    def close(self) -> None:
        """End the session within seconds, even if the server does not answer."""
        aborter = Timer(_CLOSE_SECONDS_MAX, self._handler.abort)
        aborter.daemon = True
        aborter.start()
        try:
            with suppress(KazooException, OSError):
                self._client.stop()
                self._client.close()
        finally:
            aborter.cancel()

    def get(self, path: str) -> Znode | None:
        return next(self.get_many((path,)))

    def get_many(self, paths: Iterable[str]) -> Iterator[Znode | None]:
        """Yield each znode, in order. A few are requested at a time."""
        for found in self._read_many(self._client.get_async, paths):
            yield None if found is None else Znode(found[0], found[1].version)

    def list_children(self, path: str) -> list[str] | None:
        """Return the sorted names of a znode's children; None if the znode does not exist."""
        found = next(self._read_many(self._client.get_children_async, (path,)))
        return None if found is None else sorted(found)

    def get_permissions(self, path: str) -> tuple[Permission, ...] | None:
        """Return a znode's permissions; None if the znode does not exist."""
        found = next(self._read_many(self._client.get_acls_async, (path,)))
        if found is None:
            return None
        return tuple(Permission(each.perms, each.id.scheme, each.id.id) for each in found[0])

    def commit(self, operations: Sequence[Check | SetData | Create]) -> Outcome:
        """Carry out all operations together, or none. They are sent once."""
        transaction = self._client.transaction()
        for each in operations:
            match each:
                case Check(path, version):
                    transaction.check(path, version)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Create(path, data, permissions, is_sequential):
                    assert permissions, "kazoo would make the znode world-writable"
                    acls = [
                        ACL(permission.bits, Id(permission.scheme, permission.id))
                        for permission in permissions
                    ]
                    transaction.create(path, data, acl=acls, sequence=is_sequential)
        deadline = self._new_deadline()
        self._await_connection(deadline)
        try:
            results = transaction.commit_async().get(timeout=self._left(deadline))
        except _LOST:
            return Outcome.UNKNOWN
        except KazooException as error:
            raise self._new_error(error, operations[-1].path) from None
        for each, result in zip(operations, results, strict=True):
            if isinstance(result, BadVersionError | NodeExistsError | NoNodeError):
                return Outcome.CONFLICT
            if isinstance(result, Exception) and not isinstance(result, _ROLLED_BACK):
                raise self._new_error(result, each.path)
        return Outcome.DONE

    def wait_for_connection(self) -> None:
        """Wait until a server accepts the session, or a new one."""
        self._await_connection(self._new_deadline())

    def _read_many(self, request: Callable[[str], Any], paths: Iterable[str]) -> Iterator[Any]:
        """Yield the result of each request, in order; None for a znode that does not exist."""
        sent: deque[tuple[str, Any]] = deque()
        for path in paths:
            sent.append((path, request(path)))
            if len(sent) == REQUESTS_IN_FLIGHT_MAX:
                yield self._receive(request, *sent.popleft())
        while sent:
            yield self._receive(request, *sent.popleft())

    def _receive(self, request: Callable[[str], Any], path: str, result: Any) -> Any:  # noqa: ANN401 - kazoo has no types
        deadline = self._new_deadline()
        while True:
            try:
                return result.get(timeout=self._left(deadline))
            except NoNodeError:
                return None
            except _LOST:
                self._await_connection(deadline)
                if time.monotonic() > deadline:  # connected, but no answer
                    raise self._new_lost_error() from None
                result = request(path)
            except KazooException as error:
                raise self._new_error(error, path) from None

    def _on_state(self, _: object) -> None:
        # kazoo's thread calls this before it ends; the state is then CLOSED, as after any end.
        if self._client.client_state == KeeperState.AUTH_FAILED:
            self._is_rejected = True

    def _await_connection(self, deadline: float) -> None:
        while not self._client.connected:
            if self._is_rejected:
                raise self._new_error(AuthFailedError(), "")
            if self._handler.is_hopeless or time.monotonic() > deadline:
                raise self._new_lost_error()
            time.sleep(_POLL_SECONDS)

    def _new_lost_error(self) -> SessionLostError:
        reason = self._handler.failure or "no server answers"
        if self._handler.is_hopeless:
            return SessionLostError(f"{self.name}: no connection: {reason}")
        if self._settings.sasl is not None and self._client.connected:
            reason += "; it may not support SASL with DIGEST-MD5"  # such a server keeps asking
        seconds = self._settings.connection_timeout_ms / 1000
        return SessionLostError(f"{self.name}: no answer within {seconds:g} s: {reason}")

    def _new_error(self, error: KazooException, path: str) -> ZooKeeperError:
        if isinstance(error, AuthFailedError):
            return ZooKeeperError(
                f"{self.name}: ZooKeeper rejects the credentials: check the user and the password, "
                "and that the servers support this mechanism"
            )
        if isinstance(error, NoAuthError):
            advice = (
                "this user needs the permission"
                if self.is_authenticated
                else "log in with the keys of --command-config"
            )
            return ZooKeeperError(f"{self.name}: {path}: ZooKeeper denies access: {advice}")
        if isinstance(error, InvalidACLError):
            return ZooKeeperError(
                f"{self.name}: {path}: ZooKeeper rejects the permissions of the new znode: it does "
                "not know this user, so that nobody would own it"
            )
        if isinstance(error, MarshallingError):
            return ZooKeeperError(f"{self.name}: {path}: ZooKeeper cannot read the request")
        return ZooKeeperError(f"{self.name}: {path}: {type(error).__name__}")

    def _new_deadline(self) -> float:
        return time.monotonic() + self._settings.connection_timeout_ms / 1000

    @staticmethod
    def _left(deadline: float) -> float:
        return max(deadline - time.monotonic(), _POLL_SECONDS)


@contextmanager
def open_session(
    ensemble: Ensemble, settings: ZooKeeperSettings, context: ssl.SSLContext | None
) -> Iterator[Session]:
    if settings.sasl is not None:
        _check_sasl()
    handler = ConnectionHandler(
        context, len(ensemble.servers), settings.connection_timeout_ms / 1000
    )
    session = Session(ensemble, settings, handler)
    try:
        session.start()
        yield session
    finally:
        session.close()


def _check_sasl() -> None:
    try:
        import puresasl  # noqa: F401 - kazoo imports it
    except ModuleNotFoundError:
        raise ZooKeeperError(
            f"SASL authentication needs the Python package pure-sasl: run {INSTALL_COMMAND}"
        ) from None


def _new_silent_logger() -> logging.Logger:
    logger = logging.Logger("kazoo", level=logging.CRITICAL + 1)
    logger.disabled = True
    return logger
