"""Addresses that a daemon listens on, and their TLS."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.endpoints import (
    HttpEndpoint,
    Listener,
    StreamEndpoint,
    is_loopback,
    loopback_error,
    parse_advertised_listeners,
    parse_http_endpoint,
    parse_listeners,
    parse_stream_endpoint,
)
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE
from authorizerd.config.tls import ClientAuth, StoreType, TlsSettings
from authorizerd.config.tls_keys import CIPHER_SUITES, SECRET_SSL_KEYS, cipher_suites, ssl_keys
from tests.config.properties_file import BASE, configure, reason, refuse


@pytest.mark.parametrize(("text", "name", "host", "port"), [
    ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT", "127.0.0.1", 9092),
    ("plaintext://:0", "PLAINTEXT", None, 0),
    ("SSL://kafka-1.example.com:65535", "SSL", "kafka-1.example.com", 65535),
    ("my_listener-1://h_x:1", "MY_LISTENER-1", "h_x", 1),
    ("A://[::1]:9092", "A", "::1", 9092),
    ("A://[fe80::1%eth0]:9092", "A", "fe80::1%eth0", 9092),
    ("A://[::]:9092", "A", "::", 9092),
    ("A://0.0.0.0:9092", "A", "0.0.0.0", 9092),
    ("a:b://h:1", "A:B", "h", 1),
])  # fmt: skip
def test_listener_has_name_host_and_port(text: str, name: str, host: str | None, port: int) -> None:
    """Names become upper-case, brackets are removed, and an empty host means every interface."""
    listener = Listener(name=name, host=host, port=port)
    assert parse_listeners(text) == parse_advertised_listeners(text) == (listener,)


SHAPE = "expected NAME://host:port (an IPv6 host in brackets)"
PORT = "expected a port from 0 to 65535"
IPV6 = "expected an IPv6 address in the brackets"


@pytest.mark.parametrize(("text", "expected"), [
    ("", "expected at least one entry, found an empty value"),
    ("A://h:1,,B://h:2", "entry 2 of the comma-separated list is empty"),
    ("PLAINTEXT", SHAPE),
    ("A://h", SHAPE),
    ("A:h:1", SHAPE),
    ("://h:1", SHAPE),
    ("A://h x:1", SHAPE),
    ("A://h:x", SHAPE),
    ("A://h:", SHAPE),
    ("A://h:٣", SHAPE),
    ("A://h:1/x", SHAPE),
    ("A://::1:9092", SHAPE),
    ("A://[::1:9092", SHAPE),
    ("A://h:99999999999", SHAPE),
    ("A://[h]:1", IPV6),
    ("A://[127.0.0.1]:1", IPV6),
    ("A://[]:1", IPV6),
    ("A://h:-1", PORT),
    ("A://h:65536", PORT),
    ("A://h:1,a://g:2", "the name A occurs twice"),
])  # fmt: skip
def test_malformed_listener_is_rejected(text: str, expected: str) -> None:
    if expected in (SHAPE, PORT, IPV6):
        expected = f"invalid address '{text}': {expected}"
    assert reason(parse_listeners, text) == expected
    assert reason(parse_advertised_listeners, text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("A://h:1,B://g:1", "A and B have the same port 1"),
    ("A://h:1,B://:1", "A and B have the same port 1"),
    ("A://127.0.0.1:1,B://127.0.0.2:1", "A and B have the same port 1"),
    ("A://[::1]:1,B://:1", "A and B have the same port 1"),
    ("A://[::1]:1,B://[::2]:1", "A and B have the same port 1"),
    ("A://[::1]:1,B://1.2.3.4:1,C://h:1", "A and B and C have the same port 1"),
    ("A://[::1]:1,B://1.2.3.4:1,C://1.2.3.5:1", "A and B and C have the same port 1"),
    ("Z://h:2,A://h:1,B://h:1", "A and B have the same port 1"),
])  # fmt: skip
def test_listeners_do_not_share_a_port(text: str, expected: str) -> None:
    """Advertised listeners may."""
    assert reason(parse_listeners, text) == expected
    assert len(parse_advertised_listeners(text)) == text.count(",") + 1


@pytest.mark.parametrize(
    "text", ["A://h:0,B://h:0,C://:0", "A://127.0.0.1:1,B://[::1]:1", "A://[::1]:1,B://1.2.3.4:1"]
)
def test_port_0_may_repeat_and_ip_versions_may_share_a_port(text: str) -> None:
    assert len(parse_listeners(text)) == text.count(",") + 1


@given(st.text(alphabet="aA:/[]%.01,- \n", max_size=20))
def test_any_text_gives_valid_listeners_or_an_error(text: str) -> None:
    try:
        listeners = parse_listeners(text)
    except InvalidValueError:
        return
    assert listeners
    assert all(listener.name and 0 <= listener.port <= 65535 for listener in listeners)


@pytest.mark.parametrize(("text", "host", "port"), [
    ("http://127.0.0.1:8181", "127.0.0.1", 8181),
    ("HTTP://127.0.0.1:8181/", "127.0.0.1", 8181),
    ("http://127.255.255.254:0", "127.255.255.254", 0),
    ("http://[::1]:8181", "::1", 8181),
    ("http://[0:0:0:0:0:0:0:1]:8181", "0:0:0:0:0:0:0:1", 8181),
    ("http://localhost:8181", "localhost", 8181),
    ("http://LocalHost:8181", "LocalHost", 8181),
    ("Https://[::1]:8181/", "::1", 8181),
])  # fmt: skip
def test_loopback_http_endpoint_is_recognized(text: str, host: str, port: int) -> None:
    endpoint = parse_http_endpoint(text)
    assert endpoint == HttpEndpoint(host=host, port=port, is_tls=text.lower().startswith("https:"))
    assert is_loopback(endpoint)


@pytest.mark.parametrize(("url_host", "host"), [
    ("0.0.0.0", "0.0.0.0"),
    ("128.0.0.1", "128.0.0.1"),
    ("126.255.255.255", "126.255.255.255"),
    ("10.0.0.1", "10.0.0.1"),
    ("127.1", "127.1"),
    ("127.0.0.01", "127.0.0.01"),
    ("2130706433", "2130706433"),
    ("example.com", "example.com"),
    ("localhost.example.com", "localhost.example.com"),
    ("127.0.0.1.example.com", "127.0.0.1.example.com"),
    ("", "every interface"),
    ("[::]", "::"),
    ("[::2]", "::2"),
    ("[::1%eth0]", "::1%eth0"),
    ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
])  # fmt: skip
def test_other_http_endpoint_is_not_loopback(url_host: str, host: str) -> None:
    endpoint = parse_http_endpoint(f"http://{url_host}:8181")
    assert endpoint == HttpEndpoint(host=host if url_host else None, port=8181)
    assert not is_loopback(endpoint)
    assert loopback_error(endpoint) == (
        f"{host} is not a loopback address (127.0.0.0/8, ::1, localhost)"
    )


@pytest.mark.parametrize(("text", "expected"), [
    ("ftp://127.0.0.1:8181", "invalid scheme 'ftp': expected http or https"),
    ("unix://127.0.0.1:8181", "invalid scheme 'unix': expected http or https"),
    ("http://127.0.0.1:65536", f"invalid address 'http://127.0.0.1:65536': {PORT}"),
    *(
        (
            text,
            f"invalid address '{text}': expected http://host:port or https://host:port (an IPv6"
            " host in brackets)",
        )
        for text in (
            "",
            "127.0.0.1:8181",
            "http://127.0.0.1",
            "http://::1:8181",
            "http://127.0.0.1:8181/access",
            "http://user@127.0.0.1:8181",
            "http://127.0.0.1:8181?x",
        )
    ),
])  # fmt: skip
def test_malformed_http_endpoint_is_rejected(text: str, expected: str) -> None:
    assert reason(parse_http_endpoint, text) == expected


@pytest.mark.parametrize(("text", "expected", "loopback"), [
    ("tcp://127.0.0.1:8183", StreamEndpoint(host="127.0.0.1", port=8183), True),
    ("TCP://[::1]:0", StreamEndpoint(host="::1", port=0), True),
    ("tcp://:8183", StreamEndpoint(host=None, port=8183), False),
    ("tls://127.0.0.1:0", StreamEndpoint(host="127.0.0.1", port=0, is_tls=True), True),
    ("tcp://proxy.example:1", StreamEndpoint(host="proxy.example", port=1), False),
    ("unix:/run/stream", StreamEndpoint(path="/run/stream"), True),
    ("unix:stream", StreamEndpoint(path="stream"), True),
    (f"unix:{'a' * 107}", StreamEndpoint(path="a" * 107), True),
])  # fmt: skip
def test_stream_endpoint_is_an_address_or_a_unix_socket(
    text: str, expected: StreamEndpoint, loopback: bool
) -> None:
    assert parse_stream_endpoint(text) == expected
    assert is_loopback(expected) is loopback


def test_empty_text_disables_the_stream() -> None:
    assert parse_stream_endpoint("") is None


@pytest.mark.parametrize(("text", "expected"), [
    ("http://127.0.0.1:1", "invalid scheme 'http': expected tcp, tls or unix"),
    ("unix:", "expected a path, found an empty value"),
    ("unix:/a\0b", "expected a path without NUL characters, found '/a\0b'"),
    (f"unix:{'é' * 54}", f"invalid path of a Unix socket '{'é' * 54}': expected at most 107 bytes"),
    ("127.0.0.1:8183",
     "invalid address '127.0.0.1:8183': expected tcp://host:port, tls://host:port or"
     " unix:PATH (an IPv6 host in brackets)"),
    ("tcp://127.0.0.1:70000", f"invalid address 'tcp://127.0.0.1:70000': {PORT}"),
])  # fmt: skip
def test_malformed_stream_endpoint_is_rejected(text: str, expected: str) -> None:
    assert reason(parse_stream_endpoint, text) == expected


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
    assert "marker" not in repr(configure(*LISTENERS, *inline))
    protected = listener_tls("B", STORE, TRUST, *(line for line in lines if "store.pass" in line))
    assert protected.truststore is not None
    assert protected.truststore.password == "marker"
    assert "marker" not in repr(protected)
