"""Run one ZooKeeper server on 127.0.0.1, with ports for clear text and for TLS.

Source: ZooKeeper 3.8 administrator's guide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kafka_rig.process import KafkaProcess
from tests.kafka_rig.properties import find_free_ports, local_address, write_properties
from tests.kafka_rig.rig import Rig

JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGIN_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_MAIN_CLASS: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
_STARTED: Final = "PrepRequestProcessor (sid:0) started"


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """A running server: its addresses, and the users who may log in with SASL, with passwords."""

    directory: Path
    address: str
    tls_address: str
    users: Mapping[str, str]
    process: KafkaProcess

    def write_jaas(self, user: str) -> Path:
        """Write the JAAS file of a client that logs in as ``user``; return its path."""
        path = self.directory / f"{user}.jaas"
        path.write_text(
            f'Client {{ {LOGIN_MODULE} required username="{user}" password="{self.users[user]}";'
            " };\n"
        )
        return path


@contextmanager
def running_zookeeper(
    rig: Rig,
    directory: Path,
    users: Mapping[str, str],
    *,
    keystore: Path,
    truststore: Path,
) -> Iterator[ZooKeeper]:
    """Run a server until the block ends.

    Args:
        keystore: a PEM file with the server's key, in PKCS#8, and its certificate.
        truststore: a PEM file with the CA of clients; they need no certificate.

    Raises:
        RigError: it did not become ready.
    """
    directory.mkdir(parents=True, exist_ok=True)
    clear, tls = find_free_ports(2)
    config = directory / "zookeeper.properties"
    jaas = directory / "server.jaas"
    options = "".join(f' user_{name}="{secret}"' for name, secret in users.items())
    jaas.write_text(f"Server {{ {LOGIN_MODULE} required{options}; }};\n")
    write_properties(
        config,
        {
            "dataDir": str(directory / "data"),
            "clientPortAddress": "127.0.0.1",
            "clientPort": str(clear),
            "secureClientPortAddress": "127.0.0.1",
            "secureClientPort": str(tls),
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "ssl.keyStore.location": str(keystore),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(truststore),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "want",
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
        },
    )
    process = KafkaProcess(
        rig,
        directory,
        config,
        name="zookeeper",
        jvm_options=(*JVM_OPTIONS, f"-Djava.security.auth.login.config={jaas}"),
        audit_level="INFO",
        main_class=_MAIN_CLASS,
        started=_STARTED,
    )
    process.start()
    try:
        process.wait_until_ready()
        yield ZooKeeper(directory, local_address(clear), local_address(tls), users, process)
    finally:
        process.kill()  # its data is not used again
