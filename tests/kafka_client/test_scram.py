"""The client's side of SCRAM, against RFC 7677's example and against scramp's server."""

import hashlib
import os

import pytest
from scramp import ScramMechanism as Peer

from authorizerd.kafka_client.scram import (
    ITERATIONS_MAX,
    MESSAGE_BYTES_MAX,
    Proof,
    ScramError,
    ScramExchange,
    check_signature,
    new_nonce,
)
from authorizerd.protocol.records.scram import ScramMechanism, make_credential, salt_password

SHA_256, SHA_512 = ScramMechanism
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="


def exchange(username: str = "user", mechanism: ScramMechanism = SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, username, NONCE)


def prove(given: ScramExchange, challenge: bytes, password: str) -> Proof:
    read = given.read_challenge(challenge)
    mechanism = SHA_512 if given._hash_name == "sha512" else SHA_256
    return given.prove(read, salt_password(mechanism, password, read.salt, read.iterations))


def test_messages_are_those_of_the_standard() -> None:
    """Source: RFC 7677, section 3."""
    given = exchange()
    assert given.first == f"n,,n=user,r={NONCE}".encode()
    proof = prove(given, f"r={SERVER_NONCE},s={SALT},i=4096".encode(), "pencil")
    assert proof.message == (
        f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    check_signature(proof, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("alice", "alice-secret"),
        ("a=b,c", "=2C, =3D"),
        # SASLprep would change each of these passwords.
        ("bob", "\u00aa\u2168"),
        ("bob", "soft\u00adhyphen, no\u00a0break"),
        ("bob", "e\u0301 and \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")),
    ],
)
def test_log_in_succeeds_at_another_implementation(
    mechanism: ScramMechanism, username: str, password: str
) -> None:
    """The server has only the credential, which was computed from the UTF-8 of the password."""
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, 4096)
    credential = make_credential(mechanism, salted, salt, 4096)
    stored = (salt, credential.stored_key, credential.server_key, 4096)
    server = Peer(mechanism.text).make_server(lambda name: stored if name == username else None)
    given = ScramExchange(mechanism, username, new_nonce())
    server.set_client_first(given.first.decode())
    proof = prove(given, server.get_server_first().encode(), password)
    server.set_client_final(proof.message.decode())
    check_signature(proof, server.get_server_final().encode())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", "malformed"),
        ("e=unknown-user", "malformed"),
        (f"s={SALT},r={SERVER_NONCE},i=4096", "malformed"),
        (f"m=x,r={SERVER_NONCE},s={SALT},i=4096", "malformed"),
        (f"r={SERVER_NONCE},s={SALT},i=", "malformed"),
        (f"r={SERVER_NONCE},s={SALT},i=4096x", "malformed"),
        (f"r={SERVER_NONCE},s=%,i=4096", "malformed"),
        (f"r={SERVER_NONCE},s=abc,i=4096", "invalid base64"),
        (f"r=x{SERVER_NONCE},s={SALT},i=4096", "does not continue the client's"),
        (f"r={NONCE},s={SALT},i=4096", "does not continue the client's"),
        (f"r={SERVER_NONCE},s={SALT},i=4095", "asks for 4095 iterations: expected 4096 to 1000000"),
        (f"r={SERVER_NONCE},s={SALT},i={ITERATIONS_MAX + 1}", "asks for 1000001 iterations"),
        (f"r={SERVER_NONCE},s={SALT},i=9999999999", "asks for 9999999999 iterations"),
        ("\udcff", "not UTF-8"),
        ("a" * (MESSAGE_BYTES_MAX + 1), "at most 65536 bytes"),
    ],
)
def test_invalid_challenge_is_rejected(message: str, reason: str) -> None:
    with pytest.raises(ScramError, match=reason):
        exchange().read_challenge(message.encode(errors="surrogateescape"))


@pytest.mark.parametrize("extension", ["", ",x=y", ",x=y,z=\u00e9"])
def test_optional_extension_is_ignored(extension: str) -> None:
    read = exchange().read_challenge(f"r={SERVER_NONCE},s=MTIz,i=4096{extension}".encode())
    assert (read.salt, read.iterations) == (b"123", 4096)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed"),
        (b"v", "malformed"),
        (b"e=other-error", "the server rejects authentication: other-error"),
        (b"v=", "signature is wrong"),
        (b"v=AAAA", "signature is wrong"),
        (b"v=AAA", "invalid base64"),
        (b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "signature is wrong"),
    ],
)
def test_server_that_does_not_know_the_credential_is_rejected(message: bytes, reason: str) -> None:
    proof = prove(exchange(), f"r={SERVER_NONCE},s={SALT},i=4096".encode(), "pencil")
    with pytest.raises(ScramError, match=reason):
        check_signature(proof, message)


def test_nonces_differ() -> None:
    assert len({new_nonce() for _ in range(100)}) == 100
