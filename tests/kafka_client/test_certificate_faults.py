"""Texts about rejected certificates. No content of a certificate can control the terminal."""

import ssl
from pathlib import Path

import pytest

from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.certificate_faults import explain_certificate, read_host_names
from authorizerd.kafka_client.errors import Cause
from tests.support.certificates import Authority, with_unknown_version

HOST = Address("h", 9093)
WRONG_HOST, SELF_SIGNED, EXPIRED, NOT_YET_VALID, REVOKED = 62, 18, 10, 9, 23


def rejection(code: int, message: str = "the reason") -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


def issue(folder: Path, *hosts: str, common_name: str | None = None) -> bytes:
    pem = Authority(folder).issue("server", *hosts, common_name=common_name).read_text()
    return ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :].split("\n\n")[0])


def test_control_characters_are_escaped(tmp_path: Path) -> None:
    certificate = issue(tmp_path, "a.test", common_name="x\x1b[2Jy\nz")
    text = explain_certificate(HOST, rejection(SELF_SIGNED), certificate).text
    assert text.isprintable()
    assert r"\x1b[2Jy\nz" in text


@pytest.mark.parametrize("certificate", [None, b"", b"garbage"])
@pytest.mark.parametrize(
    ("code", "cause", "text"),
    [
        (WRONG_HOST, Cause.WRONG_HOST, "not for h"),
        (SELF_SIGNED, Cause.UNKNOWN_CA, "is self-signed"),
        (20, Cause.UNKNOWN_CA, "is issued by an unknown CA"),
        (EXPIRED, Cause.CERTIFICATE_EXPIRED, "has expired, or its CA's certificate has"),
        (NOT_YET_VALID, Cause.CERTIFICATE_EXPIRED, "is not valid yet"),
        (REVOKED, Cause.CERTIFICATE_INVALID, "is not valid: the reason"),
    ],
)
def test_unknown_or_malformed_certificate_is_explained_by_the_code_alone(
    certificate: bytes | None, code: int, cause: Cause, text: str
) -> None:
    error = explain_certificate(HOST, rejection(code), certificate)
    assert error.cause is cause
    assert error.text.startswith("h:9093: the server's certificate ")
    assert text in error.text


def test_certificate_of_an_unknown_version_is_explained_by_the_code_alone(tmp_path: Path) -> None:
    """A server that nobody has verified may send one. Its error is not a ValueError."""
    certificate = with_unknown_version(issue(tmp_path, "a.test"))
    error = explain_certificate(HOST, rejection(WRONG_HOST), certificate)
    assert error.text == "h:9093: the server's certificate is for no host, not for h"


def test_expired_ca_is_not_blamed_on_the_certificate(tmp_path: Path) -> None:
    """OpenSSL gives the same code for each certificate of the chain."""
    error = explain_certificate(HOST, rejection(EXPIRED), issue(tmp_path, "h"))
    assert error.text.endswith("has expired, or its CA's certificate has")


def test_long_lists_of_names_are_cut(tmp_path: Path) -> None:
    certificate = issue(tmp_path, *(f"{number}.test" for number in range(1000)))
    text = explain_certificate(HOST, rejection(WRONG_HOST), certificate).text
    assert text.endswith("is for 0.test, 1.test, 2.test, 3.test, 4.test and 995 more, not for h")


def test_host_names_include_addresses(tmp_path: Path) -> None:
    certificate = issue(tmp_path, "a.test", "127.0.0.1", "::1")
    assert list(read_host_names(certificate)) == ["a.test", "127.0.0.1", "::1"]
    assert list(read_host_names(b"garbage")) == []
