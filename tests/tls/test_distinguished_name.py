from contextlib import suppress

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.tls.distinguished_name import ATTRIBUTES_MAX, NAME_BYTES_MAX, rfc2253, subject_name
from authorizerd.tls.errors import DistinguishedNameError
from tests.oracles.principals import cases, our_name
from tests.support.der import element

NAME = x509.Name(
    [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "US"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "a, b"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "x@y"),
        x509.NameAttribute(NameOID.COMMON_NAME, " Duke#"),
    ]
).public_bytes()


def certificate_name(value: bytes, identifier: str = "550403") -> bytes:
    pair = element(0x06, bytes.fromhex(identifier)) + value
    return element(0x30, element(0x31, element(0x30, pair)))


def test_recorded_names_have_javas_text() -> None:
    met = 0
    for case in cases():
        if "rules" not in case:
            assert our_name(case) == case["answer"], case
            met += 1
    assert met > 250


def test_parts_are_reversed_and_escaped() -> None:
    expected = r"CN=\ Duke\#,1.2.840.113549.1.9.1=#160378" + r"4079,O=a\, b,C=US"
    assert rfc2253(NAME) == expected


def test_bmp_string_is_not_read_as_utf_8() -> None:
    """Otherwise this name, which the issuer saw as two letters, would be ``root``."""
    assert rfc2253(bytes.fromhex("300f310d300b06035504031e04726f6f74")) == "CN=\u726f\u6f74"


@pytest.mark.parametrize("content", ["d83dde00", "d800", "dfff", "0041dc00", "004100"])
@pytest.mark.parametrize("identifier", ["550403", "550404"])
def test_bmp_string_with_half_a_character_is_rejected(content: str, identifier: str) -> None:
    value = element(0x1E, bytes.fromhex(content))
    with pytest.raises(DistinguishedNameError, match="invalid BMPString"):
        rfc2253(certificate_name(value, identifier))


def test_long_name_is_rejected() -> None:
    value_bytes = NAME_BYTES_MAX - 21
    longest = certificate_name(element(0x0C, b"x" * value_bytes))
    assert len(longest) == NAME_BYTES_MAX
    assert rfc2253(longest) == "CN=" + "x" * value_bytes
    with pytest.raises(DistinguishedNameError, match="2049 bytes: expected at most 2048"):
        rfc2253(certificate_name(element(0x0C, b"x" * (value_bytes + 1))))


@pytest.mark.parametrize("parts", [1, 2, ATTRIBUTES_MAX])
def test_name_of_many_attributes_is_rejected(parts: int) -> None:
    one = element(0x30, bytes.fromhex("0603550403") + element(0x0C, b"x"))
    part = element(0x31, one * (ATTRIBUTES_MAX // parts))
    assert rfc2253(element(0x30, part * parts)).count("CN=x") == ATTRIBUTES_MAX
    with pytest.raises(DistinguishedNameError, match="expected at most 24 attributes"):
        rfc2253(element(0x30, part * parts + element(0x31, one)))
    with pytest.raises(DistinguishedNameError, match="expected at most 24 attributes"):
        rfc2253(element(0x30, element(0x31, one * (ATTRIBUTES_MAX + 1))))


@given(st.data())
def test_damaged_name_has_a_text_or_a_named_error(data: st.DataObject) -> None:
    damaged = bytearray(NAME)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(NAME) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DistinguishedNameError):
        assert isinstance(rfc2253(bytes(damaged)), str)


def test_subject_of_a_real_certificate_is_found() -> None:
    pem = trustme.CA().issue_cert("duke@example.org", common_name="Duke").cert_chain_pems[0]
    certificate = x509.load_pem_x509_certificate(pem.bytes())
    name = subject_name(certificate.public_bytes(Encoding.DER))
    assert name == certificate.subject.public_bytes()
    assert rfc2253(name).startswith("CN=Duke,OU=Testing cert #"[:-1])


@given(st.binary(max_size=60))
def test_bytes_that_are_not_a_certificate_are_rejected(data: bytes) -> None:
    with pytest.raises(DistinguishedNameError, match=r"^invalid certificate: "):
        subject_name(data)
