"""Kafka's own AdminClient, in Java, as a client of the matrix.

**Invariant:** one JVM serves all users and ends with its session.
"""

import json
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.client_matrix.calls import (
    CONFIG_SOURCES,
    NODE_ID,
    PASSWORD,
    AdminClient,
    Call,
    Cluster,
    Config,
    Login,
    RefusedError,
    Reported,
    Tls,
    security_protocol,
)
from tests.kafka_rig.rig import SOURCES, Rig, java_environment
from tests.oracles.standard_authorizer import acl_of

SECONDS_MAX: Final = 60.0
_MAIN_CLASS: Final = "org.apache.kafka.controller.AdminPeer"
_OPTIONS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_API_TIMEOUT_MS: Final = "20000"
_KEYSTORE_PASSWORD: Final = "keystore-secret"
_SECURITY: Final = "org.apache.kafka.common.security"
_LOGIN_MODULES: Final = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
}


class JavaPeer:
    """A JVM that reads one call per line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, **call: object) -> Any:  # noqa: ANN401 - whatever JSON holds
        """Return the result of a call, or raise RefusedError if the server refused it."""
        writer, reader = self._process.stdin, self._process.stdout
        assert writer is not None
        assert reader is not None
        writer.write(json.dumps(call).encode() + b"\n")
        writer.flush()
        assert select.select([reader], [], [], SECONDS_MAX)[0], f"no answer to {call}"
        line = reader.readline()
        assert line, f"the JVM ended at {call}"
        answer = json.loads(line)
        if "error" in answer:
            raise RefusedError(answer["error"])
        return answer["value"]


@contextmanager
def running_peer(rig: Rig) -> Iterator[JavaPeer]:
    """Run a JVM until the block ends."""
    logging = f"-Dlog4j2.configurationFile={SOURCES / 'tools-log4j2.properties'}"
    with subprocess.Popen(
        rig.command(_MAIN_CLASS, options=(*_OPTIONS, logging)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=java_environment(),
    ) as process:
        try:
            yield JavaPeer(process)
        finally:
            process.kill()


class JavaClient(AdminClient):
    """Kafka's AdminClient in a JVM."""

    reported_instead: ClassVar[Mapping[Call, int | None]] = {
        Call.DESCRIBE_GROUPS: ErrorCode.GROUP_ID_NOT_FOUND
    }
    notes: ClassVar[Mapping[Call, str]] = {
        Call.DESCRIBE_GROUPS: "uses version 6, in which a missing group is an error "
        "(GROUP_ID_NOT_FOUND) without operations"
    }

    def __init__(self, peer: JavaPeer, address: str, login: Login | None, tls: Tls | None) -> None:
        self._peer = peer
        self._settings = {
            "bootstrap.servers": address,
            "default.api.timeout.ms": _API_TIMEOUT_MS,
            "request.timeout.ms": _API_TIMEOUT_MS,
        }
        self._settings |= java_settings(login, tls)

    def _do(self, call: Call, **what: object) -> Any:  # noqa: ANN401 - whatever JSON holds
        return self._peer.ask(client=self._settings, method=call, **what)

    def create_acls(self, acls: Sequence[Acl]) -> list[int]:
        return list(self._do(Call.CREATE_ACLS, acls=[_row(acl) for acl in acls]))

    def describe_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        return _acls(self._do(Call.DESCRIBE_ACLS, filter=_filter_of(topic, pattern_type)))

    def delete_acls(self, topic: str, pattern_type: PatternType) -> set[Acl]:
        return _acls(self._do(Call.DELETE_ACLS, filter=_filter_of(topic, pattern_type)))

    def describe_cluster(self) -> Cluster:
        reported = self._do(Call.DESCRIBE_CLUSTER)
        return Cluster(reported["nodes"], frozenset(reported["operations"]))

    def list_groups(self) -> list[str]:
        return list(self._do(Call.LIST_GROUPS))

    def describe_groups(self, names: Sequence[str]) -> Reported:
        return _reported(self._do(Call.DESCRIBE_GROUPS, names=names))

    def describe_topics(self, names: Sequence[str]) -> Reported:
        return _reported(self._do(Call.DESCRIBE_TOPICS, names=names))

    def describe_configs(self) -> Mapping[str, Config]:
        reported = self._do(Call.DESCRIBE_CONFIGS, node=NODE_ID)
        return {
            name: Config(value, CONFIG_SOURCES[source])
            for name, (value, source) in reported.items()
        }

    def alter_config(self, name: str, value: str | None) -> None:
        self._do(Call.ALTER_CONFIGS, node=NODE_ID, name=name, value=value)

    def describe_quorum(self) -> tuple[int, list[int]]:
        reported = self._do(Call.DESCRIBE_QUORUM)
        return reported["leader"], reported["voters"]

    def alter_credential(self, user: str, mechanism: str, iterations: int | None) -> None:
        change = {"mechanism": mechanism, "iterations": iterations, "password": PASSWORD}
        self._do(Call.ALTER_CREDENTIALS, user=user, **change)

    def describe_credentials(self, user: str) -> Mapping[str, int]:
        return dict(self._do(Call.DESCRIBE_CREDENTIALS, user=user))


def java_settings(login: Login | None, tls: Tls | None) -> dict[str, str]:
    """Return the configuration of Kafka's clients for authentication and for TLS."""
    settings = {"security.protocol": security_protocol(login, tls)}
    if login is not None:
        settings |= {
            "sasl.mechanism": login.mechanism,
            "sasl.jaas.config": f"{_LOGIN_MODULES[login.mechanism]} required "
            f'username="{login.username}" password="{login.password}";',
        }
    if tls is not None:
        settings |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tls.authority),
        }
        if tls.keystore is not None:
            settings |= _keystore_settings(tls.keystore)
    return settings


def _keystore_settings(pem: Path) -> dict[str, str]:
    """Write a PKCS12 keystore, because Kafka's clients cannot read the key's format in ``pem``."""
    data = pem.read_bytes()
    key = load_pem_private_key(data, None)
    assert isinstance(key, EllipticCurvePrivateKey | RSAPrivateKey)
    leaf, *chain = load_pem_x509_certificates(data)
    encryption = BestAvailableEncryption(_KEYSTORE_PASSWORD.encode())
    path = pem.with_suffix(".p12")
    path.write_bytes(serialize_key_and_certificates(b"client", key, leaf, chain, encryption))
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": _KEYSTORE_PASSWORD,
    }


def _reported(answer: Mapping[str, Any]) -> Reported:
    return {
        name: each if isinstance(each, int) else frozenset(each) for name, each in answer.items()
    }


def _row(acl: Acl) -> list[str]:
    return [
        ResourceType(acl.resource_type).name,
        acl.resource_name,
        PatternType(acl.pattern_type).name,
        acl.principal,
        acl.host,
        Operation(acl.operation).name,
        PermissionType(acl.permission_type).name,
    ]


def _filter_of(topic: str, pattern_type: PatternType) -> list[str | None]:
    return ["TOPIC", topic, pattern_type.name, None, None, "ANY", "ANY"]


def _acls(rows: Sequence[list[str]]) -> set[Acl]:
    return set(map(acl_of, rows))
