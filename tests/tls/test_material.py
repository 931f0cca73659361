import os
import ssl
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from authorizerd.config.tls import StoreType, TlsSettings, new_tls_settings
from authorizerd.config.tls_keys import ssl_keys
from authorizerd.tls.context import new_client_context, new_server_context
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import (
    STORE_BYTES_MAX,
    Material,
    Validity,
    describe_certificate,
    read_material,
)
from tests.support.certificates import Authority, with_unknown_version

NAMES = {key.name: key.name for key in ssl_keys()}
PASSWORD = "marker-password"
JKS = bytes.fromhex("feedfeed00000002")

Pem = tuple[str, str]
"""A private key and a certificate."""


@pytest.fixture(scope="module")
def pem(authority: Authority) -> Pem:
    text = authority.issue("server", "localhost").read_text()
    key, _, chain = text.partition("-----BEGIN CERTIFICATE-----")
    return key, "-----BEGIN CERTIFICATE-----" + chain


def settings(**values: object) -> TlsSettings:
    """Return the settings; ``keystore_location`` sets ``ssl.keystore.location``."""
    return new_tls_settings(
        {f"ssl.{key.replace('_', '.')}": value for key, value in values.items()}, NAMES
    )


def encrypt(key: str, private_format: PrivateFormat = PrivateFormat.PKCS8) -> str:
    loaded = load_pem_private_key(key.encode(), None)
    encryption = BestAvailableEncryption(PASSWORD.encode())
    return loaded.private_bytes(Encoding.PEM, private_format, encryption).decode()


def as_pkcs12(pem: Pem, ca: bytes, password: str | None = PASSWORD) -> bytes:
    key = load_pem_private_key(pem[0].encode(), None)
    return pkcs12.serialize_key_and_certificates(
        b"server",
        key,  # type: ignore[arg-type]  # trustme's keys are of a type that PKCS12 supports
        x509.load_pem_x509_certificate(pem[1].encode()),
        [x509.load_pem_x509_certificate(ca)],
        NoEncryption() if password is None else BestAvailableEncryption(password.encode()),
    )


def store_file(folder: Path, content: str | bytes) -> str:
    path = folder / "store"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


KEYSTORES: Mapping[str, Callable[[Pem, Path, bytes], dict[str, object]]] = {
    "PEM file": lambda pem, folder, _: {"keystore_location": store_file(folder, "".join(pem))},
    "certificate before the key": lambda pem, folder, _: {
        "keystore_location": store_file(folder, pem[1] + pem[0]),
        "keystore_type": StoreType.PEM,
    },
    "encrypted key": lambda pem, folder, _: {
        "keystore_location": store_file(folder, encrypt(pem[0]) + pem[1]),
        "key_password": PASSWORD,
    },
    "encrypted key of the old format": lambda pem, folder, _: {
        "keystore_location": store_file(
            folder, encrypt(pem[0], PrivateFormat.TraditionalOpenSSL) + pem[1]
        ),
        "key_password": PASSWORD,
    },
    "password for a key that has none": lambda pem, folder, _: {
        "keystore_location": store_file(folder, "".join(pem)),
        "key_password": PASSWORD,
    },
    "inline": lambda pem, _, __: {"keystore_key": pem[0], "keystore_certificate_chain": pem[1]},
    "inline on one line": lambda pem, _, __: {
        "keystore_key": pem[0].replace("\n", " "),
        "keystore_certificate_chain": pem[1].replace("\n", " "),
    },
    "PKCS12": lambda pem, folder, ca: {
        "keystore_location": store_file(folder, as_pkcs12(pem, ca)),
        "keystore_password": PASSWORD,
        "keystore_type": StoreType.PKCS12,
    },
    "PKCS12 under the type JKS, as in Java": lambda pem, folder, ca: {
        "keystore_location": store_file(folder, as_pkcs12(pem, ca)),
        "keystore_password": PASSWORD,
        "keystore_type": StoreType.JKS,
    },
    "PKCS12 without a password": lambda pem, folder, ca: {
        "keystore_location": store_file(folder, as_pkcs12(pem, ca, None)),
    },
}


@pytest.mark.parametrize(("serial", "text"), [(1, "01"), (0x33D, "033D"), (0xAB12, "AB12")])
def test_serial_number_has_whole_bytes_as_in_openssl(serial: int, text: str) -> None:
    moment = datetime.now(UTC)
    validity = Validity(subject="", issuer="", serial=serial, not_before=moment, not_after=moment)
    assert validity.serial_text == text


@pytest.mark.parametrize("make", KEYSTORES.values(), ids=KEYSTORES)
def test_keystore_gives_the_key_and_its_certificate(
    make: Callable[[Pem, Path, bytes], dict[str, object]],
    pem: Pem,
    tmp_path: Path,
    authority: Authority,
) -> None:
    given = settings(**make(pem, tmp_path, authority.ca_file.read_bytes()))
    material = read_material(given)
    certificate = x509.load_pem_x509_certificate(pem[1].encode())
    assert material.chain[0] == certificate.public_bytes(Encoding.DER)
    assert describe_certificate(material.chain[0]).serial == certificate.serial_number
    new_server_context(given, material)
    shown = repr((given, material))
    assert PASSWORD not in shown
    assert material.key.hex()[:40] not in shown


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (None, {}, "ssl.keystore.location: {path}: No such file or directory"),
        (JKS, {}, "is a JKS store; convert it: keytool -importkeystore -srckeystore {path}"),
        (b"", {}, "is not PEM, and not PKCS12 without a password: set ssl.keystore.password"),
        (b"x", {"keystore_password": PASSWORD}, "PKCS12 with the password in ssl.keystore.pass"),
        (b"x", {"keystore_type": StoreType.PEM}, "expected PEM, which begins with -----BEGIN"),
        ("{key}{cert}", {"keystore_type": StoreType.PKCS12}, "set ssl.keystore.type=PEM, or"),
        ("{key}", {}, "has no certificate in PEM"),
        ("{cert}", {}, "expected one private key in PEM, found 0"),
        ("{key}{key}{cert}", {}, "expected one private key in PEM, found 2"),
        ("{encrypted}{cert}", {}, "the private key is encrypted: set ssl.key.password"),
        ("{encrypted}{cert}", {"key_password": "x"}, "cannot be decrypted with ssl.key.password"),
        ("{other}{cert}", {}, "the private key does not belong to the first certificate"),
        ("{key}-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----", {}, "certificate 1 is"),
        ("{key}{unknown}", {}, "certificate 1 is malformed: 29 is not a valid X509 version"),
        (bytes(STORE_BYTES_MAX + 1), {}, f"expected at most {STORE_BYTES_MAX} bytes"),
    ],
)
def test_unusable_keystore_is_rejected_without_secrets(
    content: str | bytes | None,
    more: dict[str, object],
    said: str,
    pem: Pem,
    authority: Authority,
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    if isinstance(content, str):
        other = authority.issue("other", "localhost").read_text().partition("-----BEGIN CERT")[0]
        unknown = ssl.DER_cert_to_PEM_cert(with_unknown_version(ssl.PEM_cert_to_DER_cert(pem[1])))
        content = content.format(
            key=pem[0], cert=pem[1], encrypted=encrypt(pem[0]), other=other, unknown=unknown
        )
    if content is not None:
        store_file(tmp_path, content)
    with pytest.raises(StoreError) as error:
        read_material(settings(keystore_location=str(path), **more))
    text = str(error.value)
    assert said.format(path=path, key="", cert="") in text
    assert text.startswith("ssl.keystore.location: ")
    assert PASSWORD not in text


@pytest.mark.parametrize("inline", [False, True])
def test_pem_truststore_may_have_several_cas(tmp_path: Path, inline: bool) -> None:
    text = "".join(Authority(tmp_path, name).ca_file.read_text() for name in ("a", "b"))
    given = (
        settings(truststore_certificates=text)
        if inline
        else settings(truststore_location=store_file(tmp_path, text))
    )
    material = read_material(given)
    assert len(material.trusted) == 2
    new_client_context(given, material)


def test_keytools_truststore_is_read(tmp_path: Path, authority: Authority) -> None:
    """keytool writes trusted certificates as entries without a key."""
    path = tmp_path / "trust.p12"
    command = "keytool -importcert -noprompt -alias ca -storetype PKCS12 -storepass secret1"
    try:
        subprocess.run(
            [*command.split(), "-keystore", path, "-file", authority.ca_file],
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("keytool of Java is not installed")
    given = settings(truststore_location=str(path), truststore_password="secret1")
    ca = x509.load_pem_x509_certificate(authority.ca_file.read_bytes())
    assert read_material(given).trusted == (ca.public_bytes(Encoding.DER),)


def test_named_pipe_is_rejected_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="expected a file"):
        read_material(settings(keystore_location=str(tmp_path / "pipe")))


def test_no_store_gives_no_material() -> None:
    assert read_material(settings()) == Material()
