"""Run the complete daemon in this process, on a log of many ACLs."""

from __future__ import annotations

import math
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, closing, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import trio

from authorizerd.acl.model import Acl
from authorizerd.config.configuration import parse
from authorizerd.daemon.components import DaemonServices
from authorizerd.daemon.lifespan import Daemon
from authorizerd.daemon.net.binding import BoundEndpoint
from authorizerd.daemon.process import gc_control
from authorizerd.daemon.process.forced_end import ForcedEnd
from authorizerd.daemon.telemetry.systemd import ServiceManager
from authorizerd.metadata.meta_properties import (
    MetaProperties,
    format_directory,
    read_meta_properties,
)
from authorizerd.metadata.storage import DISK
from authorizerd.tls.stream import TlsStream
from tests.loop.http_requests import write_routes
from tests.loop.meter import IS_CLIENT
from tests.support.certificates import Authority
from tests.support.log_files import added, write_log
from tests.support.sasl import SHA_256, SHA_512, credential_of

ENOUGH_S: Final = 600
ROOT, ALICE, ANONYMOUS, NOBODY = "root", "alice", "ANONYMOUS", "nobody yet"
"""A super user, a user without rights, an anonymous user, and a client before its log-in."""
PLAINTEXT, SASL, CONTROLLER = "PLAINTEXT", "SASL_PLAINTEXT", "CONTROLLER"
LISTENERS: Final = (PLAINTEXT, SASL, CONTROLLER)

_CHANGES_PER_BATCH: Final = 1000
_JAAS: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{ROOT}="{ROOT}" user_{ALICE}="{ALICE}";'
)


def token_of(user: str) -> str:
    """Return the token of ``user`` for the decision ports, or ""."""
    return f"{user}.{user}" if user in (ROOT, ALICE) else ""


def write_folder(folder: Path, acls: Iterable[Acl]) -> None:
    """Write a log directory of ``acls`` and SCRAM credentials, a tokens file, and routes."""
    format_directory(folder / "log", MetaProperties("cluster", 1, "A" * 22), DISK)
    changes = [added(number, acl) for number, acl in enumerate(acls, 1)]
    starts = range(0, len(changes), _CHANGES_PER_BATCH)
    credentials = [credential_of(ROOT, ROOT, mechanism) for mechanism in (SHA_256, SHA_512)]
    write_log(
        folder / "log", credentials, *(changes[at : at + _CHANGES_PER_BATCH] for at in starts)
    )
    (folder / "routes.yaml").write_text(write_routes())
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(
        "".join(
            f"{user} {sha256(user.encode()).hexdigest()} User:{user}\n" for user in (ROOT, ALICE)
        )
    )


def _configuration_text(folder: Path, settings: Mapping[str, str]) -> str:
    values = {
        "node.id": "1",
        "log.dirs": str(folder / "log"),
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": (
            f"{PLAINTEXT}:PLAINTEXT,{SASL}:SASL_PLAINTEXT,{CONTROLLER}:SASL_PLAINTEXT"
        ),
        "controller.listener.names": CONTROLLER,
        "early.start.listeners": ",".join(LISTENERS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.controller.plain.sasl.jaas.config": _JAAS,
        "super.users": f"User:{ROOT}",
        "authorizerd.decision.http": "http://127.0.0.1:0",
        "authorizerd.decision.stream": "tcp://127.0.0.1:0",
        "authorizerd.admin.http": "http://127.0.0.1:0",
        "authorizerd.tokens.file": str(folder / "tokens"),
        "authorizerd.routes.file": str(folder / "routes.yaml"),
        "authorizerd.log.level": "ERROR",
        **settings,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def tls_settings(folder: Path) -> dict[str, str]:
    """Return the settings of a daemon whose ports all have TLS, and write a client's keys."""
    authority = Authority(folder)
    authority.issue("client", common_name="c" * 64)
    asks = {"client_auth": "requested", "truststore_location": str(authority.ca_file)}
    return {
        **authority.server_keys(**asks),
        **authority.server_keys(prefix="", **asks),
        "listener.security.protocol.map": (
            f"{PLAINTEXT}:SSL,{SASL}:SASL_SSL,{CONTROLLER}:SASL_SSL"
        ),
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.decision.stream": "tls://127.0.0.1:0",
        "authorizerd.admin.http": "https://127.0.0.1:0",
        "authorizerd.metrics.http": "https://127.0.0.1:0",
    }


class Running:
    """A daemon that accepts connections.

    Args:
        folder: contains a client's keys if all ports of the daemon have TLS.
    """

    def __init__(self, endpoints: Mapping[str, BoundEndpoint], folder: Path) -> None:
        self._endpoints = endpoints
        self._keystore = folder / "client.keystore.pem"
        self._is_secured = self._keystore.exists()

    async def connect(self, name: str) -> trio.abc.Stream:
        """Return a connection to the endpoint of this name, after its handshake."""
        plain = await self.connect_plain(name)
        return await self.secure(plain) if self._is_secured else plain

    async def connect_plain(self, name: str) -> trio.SocketStream:
        """Return a TCP connection to the endpoint of this name."""
        host, _, port = self._endpoints[name].address.rpartition("/")[2].rpartition(":")
        return await trio.open_tcp_stream(host, int(port))

    async def secure(self, plain: trio.SocketStream, *, is_identified: bool = False) -> TlsStream:
        """Do the handshake, with the client's certificate if ``is_identified``."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # other tests verify certificates
        if is_identified:
            context.load_cert_chain(self._keystore)
        stream = TlsStream(plain, context, server_side=False)
        await stream.handshake()
        return stream


@asynccontextmanager
async def running(
    folder: Path, settings: Mapping[str, str], *, is_loaded: bool = True
) -> AsyncIterator[Running]:
    """Run a daemon on the log in ``folder``; the calling task is marked as a client.

    Args:
        is_loaded: wait until the ACLs are loaded; if False, they never are.
    """
    read = partial(parse, _configuration_text(folder, settings), source="server.properties")
    properties = read_meta_properties(folder / "log")
    assert properties is not None
    ready_file = folder / f"ready-{os.urandom(4).hex()}.json"
    with (
        closing(ServiceManager({})) as manager,
        closing(DaemonServices(read(), read, properties)) as parts,
        nullcontext() if is_loaded else patch.object(parts.origin.source, "run", _never_end),
        # A timed collection would make the number of new objects in a stretch depend on the clock.
        patch.object(gc_control, "COLLECT_SECONDS", math.inf),
    ):
        daemon = _Daemon(parts, ready_file, manager, {}, _NoForcedEnd())
        async with trio.open_nursery() as nursery:
            IS_CLIENT.set(False)  # in the daemon's tasks
            nursery.start_soon(daemon.run)
            IS_CLIENT.set(True)
            with trio.fail_after(ENOUGH_S):
                await daemon.is_bound.wait()
                for name in LISTENERS:
                    await daemon.endpoints[name].wait_until_listening()
                while is_loaded and not ready_file.exists():  # noqa: ASYNC110 - a file has no event
                    await trio.sleep(0.01)
            yield Running(daemon.endpoints, folder)
            nursery.cancel_scope.cancel()


async def _never_end(applier: object) -> None:
    await trio.sleep_forever()


class _NoForcedEnd(ForcedEnd):
    """Never end this process: it also runs the tests."""

    def begin(self, seconds: int) -> None: ...


class _Daemon(Daemon):
    """A daemon that exposes its bound endpoints once ``is_bound`` is set."""

    def __init__(self, *parts: Any) -> None:  # noqa: ANN401 - as Daemon has them
        super().__init__(*parts)
        self.is_bound = trio.Event()
        self.endpoints: dict[str, BoundEndpoint] = {}

    async def _bind(self, stack: ExitStack) -> dict[str, BoundEndpoint]:
        self.endpoints = await super()._bind(stack)
        self.is_bound.set()
        return self.endpoints
