"""A Kafka cluster in memory whose nodes speak TLS."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import trio
from trio.testing import memory_stream_pair

from authorizerd.config.tls import TlsSettings, new_tls_settings
from authorizerd.config.tls_keys import CLIENT_SSL_KEYS
from authorizerd.kafka_client.address import Address
from authorizerd.tls.errors import TlsError
from authorizerd.tls.stream import TlsStream
from tests.daemon.kafka_cluster import KafkaCluster, KafkaNode


@dataclass
class TlsCluster(KafkaCluster):
    """Nodes by address; those in ``contexts`` speak TLS."""

    contexts: dict[Address, ssl.SSLContext] = field(default_factory=dict)

    async def connect(self, address: Address) -> trio.abc.HalfCloseableStream:
        if address not in self.contexts:
            return await super().connect(address)
        self.tried.append(address)
        theirs, ours = memory_stream_pair()
        stream = TlsStream(theirs, self.contexts[address], server_side=True)
        self.nursery.start_soon(_serve, self.nodes[address], stream)
        return ours


async def _serve(node: KafkaNode, stream: TlsStream) -> None:
    try:
        await stream.handshake()
    except (TlsError, trio.BrokenResourceError):
        await stream.aclose()
    else:
        await node.serve(stream)


def new_server_context(keystore: Path, clients: Path | None = None) -> ssl.SSLContext:
    """Return a server's context.

    Args:
        clients: the file of the CA whose certificates clients must have.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def new_settings(**properties: str | Path) -> TlsSettings:
    """Return a client's settings; ``truststore_location`` is ``ssl.truststore.location``."""
    given = {f"ssl.{name.replace('_', '.')}": str(value) for name, value in properties.items()}
    values = {key.name: key.parse(given[key.name]) for key in CLIENT_SSL_KEYS if key.name in given}
    return new_tls_settings(values, {key.name: key.name for key in CLIENT_SSL_KEYS})
