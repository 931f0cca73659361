"""SCRAM credentials, compared with the RFC's exchange and with records of Kafka 4.3.1."""

import hashlib
import hmac
from base64 import b64decode

import pytest

from authorizerd.image.changes import ScramCredential
from authorizerd.protocol.records.scram import (
    ScramMechanism,
    encode_salt,
    make_credential,
    salt_password,
)

RFC_SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_MESSAGE = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)
RFC_PROOF = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
RFC_SIGNATURE = b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def test_mechanisms_have_kafkas_numbers_and_names() -> None:
    assert [(int(each), each.text) for each in ScramMechanism] == [
        (1, "SCRAM-SHA-256"),
        (2, "SCRAM-SHA-512"),
    ]


def test_credential_matches_the_exchange_of_rfc_7677() -> None:
    salted = salt_password(SHA_256, "pencil", RFC_SALT, 4096)
    credential = make_credential(SHA_256, salted, RFC_SALT, 4096)
    client_signature = hmac.digest(credential.stored_key, RFC_MESSAGE, "sha256")
    client_key = bytes(a ^ b for a, b in zip(RFC_PROOF, client_signature, strict=True))
    assert hashlib.sha256(client_key).digest() == credential.stored_key
    assert hmac.digest(credential.server_key, RFC_MESSAGE, "sha256") == RFC_SIGNATURE
    assert (credential.salt, credential.iterations) == (RFC_SALT, 4096)


@pytest.mark.parametrize(
    ("mechanism", "salted", "iterations", "stored_key", "server_key"),
    [
        (SHA_256, salt_password(SHA_256, "alice-secret", b"0123456789abcdef", 5000), 5000,
         "jh3dmRws4Y2GxAIjjx7xKa6G943XI45sjSQgeDl2H10=",
         "nqoYt5kRmK6HyYk+nfc7bG4Q5ABgmXgrGjD11kvFm98="),
        (SHA_512, b"x" * 64, 8192,
         "qNnvGunGdhENhug+qI/e9p1Tw5ku65/pLITW8IULD3d06Jj162JNgqBouMHtllyzTS"
         "2K06qkVwwZQvmQ8la7bA==",
         "awyraV+UtEnc6QwQIKY/Je6kMads2luuNKU5hYvylDr1HSDHCT4EDoafb1t+BbKupm"
         "gvnZHA7RvJkTNkYmB2xA=="),
    ],
)  # fmt: skip
def test_credentials_equal_those_of_kafka_storage(
    mechanism: ScramMechanism, salted: bytes, iterations: int, stored_key: str, server_key: str
) -> None:
    salt = b"0123456789abcdef"
    assert make_credential(mechanism, salted, salt, iterations) == ScramCredential(
        salt, b64decode(stored_key), b64decode(server_key), iterations
    )


def test_password_is_not_normalized() -> None:
    """As in Kafka, SASLprep is not applied."""
    composed, decomposed = (
        salt_password(SHA_512, password, b"salt", 4096) for password in ("\u00e9", "e\u0301")
    )
    assert composed != decomposed
    assert len(composed) == 64


@pytest.mark.parametrize(
    ("number", "salt"),
    [(0, b""), (35, b"z"), (36, b"10"), (2**130 - 1, b"1omfro7zwmumr3umxudzyj6scf")],
)
def test_salt_is_a_number_in_base_36(number: int, salt: bytes) -> None:
    assert encode_salt(number) == salt
    assert int(salt or b"0", 36) == number
