"""Settings, credentials and tokens of SASL authentication."""

from collections.abc import Mapping
from typing import Any, Final

from scramp import ScramClient

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import Published
from authorizerd.config.jaas import PlainUsers
from authorizerd.config.sasl import SaslSettings
from authorizerd.daemon.kafka.login.login_credentials import LoginCredentials
from authorizerd.image.changes import CredentialAdded
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.records.scram import ScramMechanism, make_credential, salt_password
from tests.support.acls import snapshot_of
from tests.support.kafka_connection import KafkaConnection

SECRET = b"secret of these tests"
SALT = b"salt of these tests"
ITERATIONS = 4096
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
MECHANISMS: Final = ("PLAIN", *(each.text for each in ScramMechanism))


def sasl_settings(
    *mechanisms: str, users: Mapping[str, str] | PlainUsers | None = None, session_ms: int = 0
) -> SaslSettings:
    """Return settings with these mechanisms. If ``users`` is given, PLAIN is one of them."""
    if users is not None and "PLAIN" not in mechanisms:
        mechanisms = ("PLAIN", *mechanisms)
    plain = users if isinstance(users, PlainUsers) else PlainUsers(users or {})
    return SaslSettings(
        mechanisms=mechanisms, users=plain, session_ms=dict.fromkeys(mechanisms, session_ms)
    )


def credential_of(
    user: str,
    password: str,
    mechanism: ScramMechanism = SHA_256,
    *,
    salt: bytes = SALT,
    iterations: int = ITERATIONS,
) -> CredentialAdded:
    """Return the log's record of a user."""
    salted = salt_password(mechanism, password, salt, iterations)
    return CredentialAdded(user, mechanism, make_credential(mechanism, salted, salt, iterations))


class LoadedCredentials(LoginCredentials):
    """Credentials whose content a test sets."""

    def __init__(self, *added: CredentialAdded, is_loaded: bool = True) -> None:
        image = apply_cluster_changes(EMPTY_IMAGE, added)
        self.image: Published[ClusterImage] = Published(image)
        self.snapshot: Published[AclSnapshot | None] = Published(
            snapshot_of() if is_loaded else None
        )
        super().__init__(self.image, self.snapshot, SECRET)

    def load(self, *added: CredentialAdded) -> None:
        """Publish these credentials as the whole content of the log."""
        self.image.publish(apply_cluster_changes(EMPTY_IMAGE, added))
        self.snapshot.publish(snapshot_of())


class ScramTokens:
    """The messages of a SCRAM client, made by a library that shares no code with the daemon."""

    def __init__(self, user: str, password: str, mechanism: ScramMechanism = SHA_256) -> None:
        self._client = ScramClient([mechanism.text], user, password)

    def first(self) -> bytes:
        message: str = self._client.get_client_first()
        return message.encode()

    def final(self, answer: bytes) -> bytes:
        self._client.set_server_first(answer.decode())
        message: str = self._client.get_client_final()
        return message.encode()

    def check(self, answer: bytes) -> None:
        self._client.set_server_final(answer.decode())


def log_in(connection: KafkaConnection, mechanism: str, user: str, password: str) -> Any:  # noqa: ANN401 - an entity
    """Return the last answer to authentication, or to re-authentication."""
    chosen = connection.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
    if chosen.error_code or mechanism not in MECHANISMS:
        return chosen

    def send(token: bytes) -> Any:  # noqa: ANN401 - an entity
        return connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)

    if mechanism == "PLAIN":
        return send(f"\0{user}\0{password}".encode())
    tokens = ScramTokens(user, password, ScramMechanism[mechanism.replace("-", "_")])
    first = send(tokens.first())
    return first if first.error_code else send(tokens.final(first.auth_bytes))
