from __future__ import annotations

from dataclasses import replace

import pytest

from authorizerd.config.jaas import PLAIN_LOGIN_MODULE
from authorizerd.config.tls import ClientAuth, StoreType, TlsSettings
from authorizerd.config.tls_keys import CIPHER_SUITES, SECRET_SSL_KEYS, cipher_suites, ssl_keys
from tests.config.properties_file import BASE, configure, refuse

LISTENERS = (
    "listeners=A://h:1,B://h:2,C://h:3",
    "listener.security.protocol.map=A:PLAINTEXT,B:SSL,C:SASL_SSL",
    f'listener.name.c.plain.sasl.jaas.config={PLAIN_LOGIN_MODULE} required user_u="p";',
)
STORE = "ssl.keystore.location=/k.pem"
TRUST = "ssl.truststore.location=/t.pem"


def listener_tls(name: str, *lines: str) -> TlsSettings:
    return configure(*LISTENERS, *lines).listener_tls[name]


def test_only_listeners_with_tls_have_settings() -> None:
    configuration = configure(*LISTENERS, STORE)
    assert configuration.listener_tls.keys() == {"B", "C"}
    assert configuration.http_tls is None
    assert configuration.listener_tls["B"] == configuration.listener_tls["C"]


def test_settings_have_kafkas_defaults() -> None:
    settings = listener_tls("B", STORE)
    assert settings.client_auth is ClientAuth.NONE
    assert settings.protocols == ("TLSv1.2", "TLSv1.3")
    assert settings.cipher_suites == ()
    assert settings.truststore is None


def test_listeners_own_keys_replace_the_general_ones() -> None:
    own = "listener.name.b.ssl.keystore."
    lines = (STORE, f"{own}location=/b.p12", f"{own}password=secret", f"{own}type=PKCS12")
    keystore = listener_tls("B", *lines).keystore
    assert keystore is not None
    assert (keystore.location, keystore.password) == ("/b.p12", "secret")
    assert (keystore.type, keystore.key_name) == (StoreType.PKCS12, f"{own}location")
    general = listener_tls("C", *lines).keystore
    assert general is not None
    assert (general.location, general.key_name) == ("/k.pem", "ssl.keystore.location")


@pytest.mark.parametrize(("line", "for_ssl", "for_sasl_ssl"), [
    ("ssl.client.auth=required", ClientAuth.REQUIRED, ClientAuth.NONE),
    ("listener.name.c.ssl.client.auth=required", ClientAuth.NONE, ClientAuth.REQUIRED),
    ("listener.name.b.ssl.client.auth=requested", ClientAuth.REQUESTED, ClientAuth.NONE),
])  # fmt: skip
def test_general_client_auth_is_not_for_sasl_ssl(
    line: str, for_ssl: ClientAuth, for_sasl_ssl: ClientAuth
) -> None:
    """Source: KIP-684."""
    tls = configure(*LISTENERS, STORE, TRUST, line).listener_tls
    assert (tls["B"].client_auth, tls["C"].client_auth) == (for_ssl, for_sasl_ssl)


OWN = "authorizerd.http.ssl."


def test_own_ports_have_keys_of_their_own() -> None:
    settings = configure(
        "authorizerd.decision.http=https://127.0.0.1:1",
        "ssl.keystore.location=/kafka.pem",
        f"{OWN}keystore.location=/http.pem",
    ).http_tls
    assert settings is not None
    assert settings.keystore is not None
    assert settings.keystore.location == "/http.pem"
    assert settings.without_client_auth() == replace(settings, truststore=None)


@pytest.mark.parametrize(("lines", "said"), [
    ([], "ssl.keystore.location: required for TLS"),
    ([STORE, "ssl.client.auth=required"], "ssl.truststore.location: required because"),
    (["ssl.keystore.key=K"], "ssl.keystore.certificate.chain: the certificate chain and the"),
    (["ssl.keystore.certificate.chain=C"], "ssl.keystore.key: the certificate chain and the"),
    ([STORE, "ssl.keystore.key=K", "ssl.keystore.certificate.chain=C"],
     ": ssl.keystore.key: set either this or ssl.keystore.location"),
    ([STORE, TRUST, "ssl.truststore.certificates=C"],
     ": ssl.truststore.certificates: set either this or ssl.truststore.location"),
    (["ssl.keystore.key=K", "ssl.keystore.certificate.chain=C", "ssl.keystore.type=PKCS12"],
     ": ssl.keystore.type: expected PEM for inline text, found PKCS12"),
    ([STORE, "ssl.keystore.type=PEM", "ssl.keystore.password=marker"],
     ": ssl.keystore.password: PEM has no password for the whole store: use"
     " ssl.key.password for an encrypted key"),
    ([STORE, "ssl.keystore.type=BKS"], "expected one of JKS, PKCS12, PEM, found 'BKS'"),
    ([STORE, "ssl.client.auth=maybe"], "expected one of none, requested, required"),
    ([STORE, "ssl.enabled.protocols=TLSv1.1"], "invalid protocol 'TLSv1.1': expected TLSv1.2"),
    ([STORE, "ssl.enabled.protocols="], "expected at least one of TLSv1.2, TLSv1.3"),
    ([STORE, "ssl.cipher.suites=TLS_AES_128_GCM_SHA256"],
     "TLS_AES_128_GCM_SHA256 is a suite of TLS 1.3, whose suites cannot be chosen"),
    ([STORE, "ssl.cipher.suites=RC4"], "invalid cipher suite 'RC4': expected one of TLS_ECDHE"),
    ([STORE, "ssl.engine.factory.class=x.Y"], "a Java class cannot be loaded"),
    ([STORE, "principal.builder.class=x.Y"], "a Java class cannot be loaded"),
    ([STORE, "authorizerd.decision.http=https://[::1]:1"], f"{OWN}keystore.location: required"),
])  # fmt: skip
def test_contradictory_settings_are_rejected(lines: list[str], said: str) -> None:
    text = refuse(BASE + "\n".join([*LISTENERS, *lines, ""]))
    assert said in text
    assert "marker" not in text


@pytest.mark.parametrize(("lines", "said"), [
    (["authorizerd.decision.http=https://0.0.0.0:1"], "authorizerd.decision.http: 0.0.0.0 is"),
    (["authorizerd.decision.stream=tls://0.0.0.0:1"], "authorizerd.decision.stream: 0.0.0.0"),
    (["authorizerd.admin.http=https://0.0.0.0:1"], "authorizerd.admin.http: 0.0.0.0 is not"),
    (["authorizerd.tokens.file=/t", "authorizerd.admin.http=http://0.0.0.0:1"],
     "localhost): use https://"),
])  # fmt: skip
def test_encryption_alone_opens_no_port_to_others(lines: list[str], said: str) -> None:
    stores = f"{OWN}keystore.location=/k\n{OWN}truststore.location=/t\n"
    assert said in refuse(BASE + stores + "\n".join([*lines, ""]))
    if "http://0" not in lines[-1]:
        configure(stores + "authorizerd.tokens.file=/t", *lines)
        configure(stores + f"{OWN}client.auth=required", *lines)


def test_default_principal_builder_is_accepted() -> None:
    package = "org.apache.kafka.common.security.authenticator"
    configure(f"principal.builder.class={package}.DefaultKafkaPrincipalBuilder")


def test_javas_suites_are_mapped() -> None:
    assert cipher_suites(", ".join(CIPHER_SUITES)) == tuple(CIPHER_SUITES.values())


def test_secrets_are_in_no_repr() -> None:
    lines = [f"{key.name}=marker" for key in ssl_keys() if key.name in SECRET_SSL_KEYS]
    inline = [line for line in lines if "password" not in line or "ssl.key.password" in line]
    assert len(inline) == 4
    configuration = configure(*LISTENERS, *inline)
    assert "marker" not in repr(configuration)
    protected = listener_tls("B", STORE, TRUST, *(line for line in lines if "store.pass" in line))
    assert protected.truststore is not None
    assert protected.truststore.password == "marker"
    assert "marker" not in repr(protected)
