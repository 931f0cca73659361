"""The handlers of Kafka requests over a real authorizer, queue and applier, the log in memory."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclFilter,
    ChangeBatch,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.steps import finish
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.authorizer import Authentication, Authorizer
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.record_applier import CaughtUp
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.values import SecurityProtocol
from authorizerd.daemon.kafka.cluster import Cluster, Node
from authorizerd.daemon.kafka.dispatch import KafkaHandlers, Session
from authorizerd.daemon.kafka.quorum import Leadership
from authorizerd.daemon.kafka.request_latency import RequestTimes
from authorizerd.daemon.settings import Settings
from authorizerd.image.changes import ClusterChange
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from tests.support.audit import RecordingAuditLog
from tests.support.kio_codec import decode_response, encode_request
from tests.support.update_queue import Running

ROOT = "User:root"
ALICE = "User:alice"
CLUSTER_NAME = "kafka-cluster"
TIMEOUT_MS = 30_000
EPOCH = 3
ANYTHING = AclFilter()
CLUSTER = Cluster(
    cluster_id="cluster-1",
    nodes={"BROKER": Node(7, "broker.example", 9092), "CONTROLLER": Node(7, "in.example", 9093)},
    controller_listeners=frozenset({"CONTROLLER"}),
)


def acl(
    name: str = "orders",
    *,
    resource_type: int = ResourceType.TOPIC,
    pattern_type: int = PatternType.LITERAL,
    principal: str = ALICE,
    operation: int = Operation.READ,
    permission_type: int = PermissionType.ALLOW,
) -> Acl:
    return Acl(resource_type, name, pattern_type, principal, "*", operation, permission_type)


def on_cluster(operation: Operation, permission: PermissionType = PermissionType.ALLOW) -> Acl:
    return acl(
        CLUSTER_NAME,
        resource_type=ResourceType.CLUSTER,
        operation=operation,
        permission_type=permission,
    )


PlugIn = Callable[[Authorizer], Authorizer]
"""Create a custom authorizer over the built-in one."""


def read_configuration(*lines: str) -> Configuration:
    """Return the configuration of node 7 with the super user ROOT."""
    text = "\n".join(("node.id=7", "log.dirs=/log", f"super.users={ROOT}", *lines))
    return parse(text, source="server.properties")


class KafkaService:
    """The handlers and the parts behind them; ROOT is a super user.

    Attributes:
        events: the audited events, at level DEBUG.
        faults: the errors that a plugged-in authorizer raised.
        read: reads the configuration at a reload, by default that of ``lines``.
    """

    def __init__(
        self, running: Running, plug_in: PlugIn | None = None, lines: Sequence[str] = ()
    ) -> None:
        self.running = running
        audit_log = RecordingAuditLog()
        self.events = audit_log.events
        self.purgatory = Purgatory(TIMEOUT_MS)
        self.times = RequestTimes()
        self.authorizer = StandardAuthorizer(
            running.applier.snapshot,
            running.queue,
            auditor=Auditor(audit_log, level=AuditLevel.DEBUG, now_s=lambda: 0.0),
            why_no_snapshot=lambda: running.applier.not_ready_reason,
        )
        self.authorizer.configure({"super.users": ROOT})
        self.faults: list[BaseException] = []
        authorizer: DaemonAuthorizer = self.authorizer
        if plug_in is not None:
            authorizer = PluggedAuthorizer(
                plug_in(self.authorizer),
                name="Plugged",
                snapshot=running.applier.snapshot,
                on_failure=self.faults.append,
            )
        self.read: Callable[[], Configuration] = lambda: read_configuration(*lines)
        self.settings = Settings(
            self.read(),
            running.applier.cluster,
            authorizer,
            standard=self.authorizer,
            read=lambda: self.read(),
        )
        self.handlers = KafkaHandlers(
            image=running.applier.cluster,
            authorizer=authorizer,
            purgatory=self.purgatory,
            cluster=CLUSTER,
            leadership=self._leadership,
            updates=running.queue,
            settings=self.settings,
            times=self.times,
        )

    def _leadership(self) -> Leadership | None:
        newest = self.running.applier.snapshot.newest
        return None if newest is None else Leadership(EPOCH, newest.offset + 1)

    @property
    def acls(self) -> set[Acl]:
        return self.running.acls

    @contextmanager
    def log_held(self) -> Iterator[None]:
        """Block appends within the block; release them even if the test fails."""
        self.running.log.hold()
        try:
            yield
        finally:
            self.running.log.released.set()

    async def load(self, *acls: Acl, cluster_changes: Sequence[ClusterChange] = ()) -> None:
        """Publish ACLs and other changes as if they had been read from the log."""
        added = tuple(AclAdded(b"loaded" + n.to_bytes(10, "big"), a) for n, a in enumerate(acls))
        offset = len(added) + len(cluster_changes)
        if offset:
            self.running.log.last_offset = offset
            batch = ChangeBatch(offset, added, cluster_changes=tuple(cluster_changes))
            await self.running.feed.send(batch)
        await self.running.feed.send(CaughtUp(offset))
        await wait_all_tasks_blocked()

    async def commit(self, *cluster_changes: ClusterChange) -> None:
        """Publish changes that another process has written to the log."""
        self.running.log.last_offset += len(cluster_changes)
        batch = ChangeBatch(self.running.log.last_offset, cluster_changes=cluster_changes)
        await self.running.feed.send(batch)

    async def raw(
        self,
        api_key: ApiKey,
        version: int,
        body: bytes,
        *,
        principal: str = ROOT,
        listener_name: str = "BROKER",
    ) -> bytes:
        """Return the body of the answer to ``body``."""
        request = KafkaRequest(
            api_key=api_key, api_version=version, correlation_id=1, client_id="tests", body=body
        )
        session = Session(
            listener_name=listener_name,
            security_protocol=SecurityProtocol.SSL,
            principal=principal,
            host="10.0.0.1",
            authentication=Authentication.CERTIFICATE,
        )
        return b"".join(await self.handlers.answer(request, session))

    async def ask(
        self,
        api_key: ApiKey,
        version: int,
        *,
        principal: str = ROOT,
        listener_name: str = "BROKER",
        **fields: object,
    ) -> Any:  # noqa: ANN401 - an entity of any version
        body = finish(encode_request(api_key, version, SimpleNamespace(**fields)))
        answered = await self.raw(
            api_key, version, body, principal=principal, listener_name=listener_name
        )
        return finish(decode_response(api_key, version, answered))

    async def create(
        self, acls: Sequence[Acl], *, version: int = 3, principal: str = ROOT
    ) -> list[ApiError | None]:
        body = encode_create_acls_request(version, acls)
        answered = await self.raw(ApiKey.CREATE_ACLS, version, body, principal=principal)
        return decode_create_acls_response(version, answered)

    async def describe(
        self, wanted: AclFilter = ANYTHING, *, version: int = 3, principal: str = ROOT
    ) -> set[Acl] | ApiError:
        body = encode_describe_acls_request(version, wanted)
        answered = await self.raw(ApiKey.DESCRIBE_ACLS, version, body, principal=principal)
        found = decode_describe_acls_response(version, answered)
        return found if isinstance(found, ApiError) else set(found)

    async def delete(
        self, filters: Sequence[AclFilter], *, version: int = 3, principal: str = ROOT
    ) -> list[FilterResult]:
        body = encode_delete_acls_request(version, filters)
        answered = await self.raw(ApiKey.DELETE_ACLS, version, body, principal=principal)
        return decode_delete_acls_response(version, answered)


async def start(
    nursery: trio.Nursery,
    *acls: Acl,
    is_loaded: bool = True,
    requests_max: int = 100,
    plug_in: PlugIn | None = None,
    cluster_changes: Sequence[ClusterChange] = (),
    lines: Sequence[str] = (),
) -> KafkaService:
    """Return a service that has loaded ``acls`` and ``cluster_changes``.

    Args:
        lines: of the configuration.
    """
    running = Running(requests_max)
    await nursery.start(running.applier.run)
    await nursery.start(running.queue.run)
    service = KafkaService(running, plug_in, lines)
    if is_loaded:
        await service.load(*acls, cluster_changes=cluster_changes)
    return service


Start = Callable[..., Awaitable[KafkaService]]
"""``start`` in the nursery of a test."""
