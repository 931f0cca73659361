"""A SCRAM server that supplies the answers of a node of ``tests.daemon.kafka_cluster``."""

import hashlib
from collections.abc import Callable
from types import SimpleNamespace

from scramp import ScramMechanism as Peer

from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from authorizerd.protocol.records.scram import ScramMechanism, make_credential
from tests.daemon.kafka_cluster import answer
from tests.support.kio_codec import decode_request

SALT = b"salt of the user"
ITERATIONS = 4096


class ScramServer:
    """Log one user in. ``forge`` changes the last message.

    The server has only the credential, which is computed from the UTF-8 of the password.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        password: str,
        forge: Callable[[bytes], bytes] = lambda message: message,
    ) -> None:
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), SALT, ITERATIONS)
        credential = make_credential(mechanism, salted, SALT, ITERATIONS)
        stored = (SALT, credential.stored_key, credential.server_key, ITERATIONS)
        self._server = Peer(mechanism.text).make_server(lambda _: stored)
        self._forge = forge
        self.answers = (
            answer(error_code=0, mechanisms=(mechanism.text,)),
            self._challenge,
            self._sign,
        )
        """A node's answers to the three requests of an authentication."""

    def _challenge(self, request: KafkaRequest) -> SimpleNamespace:
        self._server.set_client_first(_token(request))
        return _authenticated(self._server.get_server_first().encode())

    def _sign(self, request: KafkaRequest) -> SimpleNamespace:
        self._server.set_client_final(_token(request))
        return _authenticated(self._forge(self._server.get_server_final().encode()))


def _token(request: KafkaRequest) -> str:
    fields = finish(decode_request(request.api_key, request.api_version, request.body))
    return str(getattr(fields, "auth_bytes", b"").decode())


def _authenticated(token: bytes) -> SimpleNamespace:
    given = answer(error_code=0, error_message=None, auth_bytes=token)
    given.session_lifetime = given.throttle_time
    return given
