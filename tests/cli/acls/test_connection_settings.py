"""The connection settings of ``authorizerd acls``, and the client properties that it rejects."""

from pathlib import Path

import pytest

from authorizerd.cli.acls.arguments import parse_arguments
from authorizerd.cli.acls.connection_settings import open_context, read_settings
from authorizerd.cli.acls.errors import KafkaAclsError
from authorizerd.config.jaas import SCRAM_LOGIN_MODULE
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings
from authorizerd.kafka_client.log_in import AnyCredentials, Credentials, Mechanism

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
CONFIG_ERROR = (
    "Error while executing ACL command: {0}\n"
    "org.apache.kafka.common.config.ConfigException: {0}\n\n"
)
CLIENT_ERROR = (
    "Error while executing ACL command: Failed to create new KafkaAdminClient\n"
    "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\n"
    "Caused by: org.apache.kafka.common.config.ConfigException: {0}\n\n"
)


def settings(
    path: Path, text: str | None = None, bootstrap: str = "h:1", kind: str = "server"
) -> ClientSettings:
    words = [f"--bootstrap-{kind}", bootstrap]
    if text is not None:
        config = path / "client.properties"
        config.write_text(text, encoding="iso-8859-1")
        words += ["--command-config", str(config)]
    return read_settings(parse_arguments(words))


def refusal(
    path: Path, text: str | None = None, bootstrap: str = "h:1", kind: str = "server"
) -> str:
    with pytest.raises(KafkaAclsError) as error:
        settings(path, text, bootstrap, kind)
    return str(error.value)


def jaas(path: Path, line: str) -> AnyCredentials | None:
    return settings(path, SASL + line.replace("\\", "\\\\")).credentials


def test_defaults_are_those_of_kafka(tmp_path: Path) -> None:
    expected = ClientSettings(bootstrap=[Address("h", 1)])
    assert settings(tmp_path) == settings(tmp_path, "") == settings(tmp_path, "acks=1") == expected
    assert (
        read_settings(parse_arguments(["--bootstrap-server=h:1", "--command-config"])) == expected
    )
    assert (expected.request_timeout_ms, expected.api_timeout_ms) == (30_000, 60_000)
    assert expected.client_id == "adminclient-1"
    assert not expected.to_controllers
    assert expected.credentials is None


@pytest.mark.parametrize(("key", "meant"), [
    ("securty.protocol", "security.protocol"),
    ("sasl.mechanisms", "sasl.mechanism"),
    ("SSL.truststore.location", "ssl.truststore.location"),
    ("acks", None),
    ("security.providers", None),
    ("ssl.keystore.location", None),
])  # fmt: skip
def test_key_that_is_probably_a_typo_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, meant: str | None
) -> None:
    settings(tmp_path, f"{key}=x")
    said = f"authorizerd: warning: --command-config: {tmp_path / 'client.properties'}: {key} is"
    said = "" if meant is None else f"{said} ignored; did you mean {meant}?\n"
    assert capsys.readouterr().err == said


def test_file_in_utf_8_is_reported_without_its_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings(tmp_path, "client.id=h\u00c3\u00b6")
    said = capsys.readouterr().err
    assert "client.properties: client.id: this looks like UTF-8" in said
    assert "\u00c3" not in said


def test_command_config_sets_credentials_and_timeouts(tmp_path: Path) -> None:
    assert settings(
        tmp_path,
        SASL + f'{MODULE} required username="alice" password="alice-secret";\n'
        "client.id=me\nrequest.timeout.ms= 5000\ndefault.api.timeout.ms=+7000\n",
        "h:1,i:2",
        "controller",
    ) == ClientSettings(
        bootstrap=[Address("h", 1), Address("i", 2)],
        to_controllers=True,
        credentials=Credentials(
            mechanism=Mechanism.PLAIN, username="alice", password="alice-secret"
        ),
        client_id="me",
        request_timeout_ms=5000,
        api_timeout_ms=7000,
    )


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "plaintext", " Plaintext "])
def test_plaintext_ignores_credentials(tmp_path: Path, protocol: str) -> None:
    line = f'sasl.jaas.config={MODULE} required username="a" password="b";'
    assert settings(tmp_path, f"security.protocol={protocol}\n{line}").credentials is None


@pytest.mark.parametrize(("bootstrap", "addresses"), [
    ("localhost:9092", [("localhost", 9092)]),
    (" a:1 , b:2 ", [("a", 1), ("b", 2)]),
    ("a:1,a:1,b:2", [("a", 1), ("b", 2)]),
    ("PLAINTEXT://a.b-c:1", [("a.b-c", 1)]),
    ("[::1]:9092", [("::1", 9092)]),
    ("::1:9092", [("::1", 9092)]),
    ("fe80::1%eth0:09092", [("fe80::1%eth0", 9092)]),
    ("a:0", [("a", 0)]),
])  # fmt: skip
def test_addresses_are_read_as_kafka_reads_them(
    tmp_path: Path, bootstrap: str, addresses: list[tuple[str, int]]
) -> None:
    found = settings(tmp_path, bootstrap=bootstrap).bootstrap
    assert list(found) == [Address(*address) for address in addresses]


@pytest.mark.parametrize(("bootstrap", "reason"), [
    ("a", "Invalid url in bootstrap.servers: a"),
    ("a:b", "Invalid url in bootstrap.servers: a:b"),
    (":1", "Invalid url in bootstrap.servers: :1"),
    ("a:1/x", "Invalid url in bootstrap.servers: a:1/x"),
    ("ä:1", "Invalid url in bootstrap.servers: ä:1"),
    ("a:1,x y:2", "Invalid url in bootstrap.servers: x y:2"),
    ("a:65536", "Invalid port in bootstrap.servers: a:65536"),
    ("a:" + "9" * 5000, "Invalid port in bootstrap.servers: a:" + "9" * 5000),
    ("", "You must set either bootstrap.servers or bootstrap.controllers"),
    (" ", "You must set either bootstrap.servers or bootstrap.controllers"),
])  # fmt: skip
def test_invalid_address_is_rejected(tmp_path: Path, bootstrap: str, reason: str) -> None:
    for kind in ("server", "controller"):
        assert refusal(tmp_path, None, bootstrap, kind) == CLIENT_ERROR.format(reason)


def test_empty_item_of_a_list_is_rejected(tmp_path: Path) -> None:
    for bootstrap in (",", "a:1,", "a:1,,b:2"):
        reason = "Configuration 'bootstrap.controllers' values must not be empty."
        assert refusal(tmp_path, None, bootstrap, "controller") == CONFIG_ERROR.format(reason)


def test_servers_and_controllers_together_are_rejected(tmp_path: Path) -> None:
    assert list(settings(tmp_path, "bootstrap.servers=b:2").bootstrap) == [Address("h", 1)]
    both = CLIENT_ERROR.format("You cannot set both bootstrap.servers and bootstrap.controllers")
    assert refusal(tmp_path, "bootstrap.servers=b:2", "h:1", "controller") == both
    assert refusal(tmp_path, "bootstrap.controllers=b:2", "h:1", "server") == both


MECHANISMS = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI"
ONE_OF = "String must be one of (case insensitive): SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT"


@pytest.mark.parametrize(("text", "key", "value", "reason"), [
    ("security.protocol=NIX", "security.protocol", "NIX", ONE_OF),
    ("security.protocol=SASL_PLAINTEXT",
     *("sasl.mechanism", "GSSAPI",
       f"sasl.jaas.config has no keytab for Kafka's default: set one of {MECHANISMS}")),
    ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=plain",
     *("sasl.mechanism", "plain", f"authorizerd acls supports only {MECHANISMS}")),
    ("request.timeout.ms=abc", "request.timeout.ms", "abc", "Not a number of type INT"),
    ("default.api.timeout.ms=2147483648",
     *("default.api.timeout.ms", "2147483648", "Not a number of type INT")),
    ("request.timeout.ms=-1", "request.timeout.ms", "-1", "Value must be at least 0"),
])  # fmt: skip
def test_unsupported_or_invalid_property_is_rejected(
    tmp_path: Path, text: str, key: str, value: str, reason: str
) -> None:
    expected = CONFIG_ERROR.format(f"Invalid value {value} for configuration {key}: {reason}")
    assert refusal(tmp_path, text) == expected


def test_api_timeout_is_at_least_the_request_timeout(tmp_path: Path) -> None:
    reason = (
        "The specified value of default.api.timeout.ms must be no smaller than the value of "
        "request.timeout.ms."
    )
    text = "default.api.timeout.ms=3000\nrequest.timeout.ms=5000"
    assert refusal(tmp_path, text) == CLIENT_ERROR.format(reason)
    assert settings(tmp_path, "request.timeout.ms=90000").api_timeout_ms == 90_000


@pytest.mark.parametrize(("line", "username", "password"), [
    (f'{MODULE} required username="alice" password="secret";', "alice", "secret"),
    (f'{MODULE} required username="é" password="";', "é", ""),
])  # fmt: skip
def test_jaas_line_has_credentials(tmp_path: Path, line: str, username: str, password: str) -> None:
    assert jaas(tmp_path, line) == Credentials(
        mechanism=Mechanism.PLAIN, username=username, password=password
    )


@pytest.mark.parametrize(("mechanism", "module", "is_accepted"), [
    ("PLAIN", "plain.Plain", True),
    ("PLAIN", "scram.Scram", True),
    ("SCRAM-SHA-256", "scram.Scram", True),
    ("SCRAM-SHA-512", "scram.Scram", True),
    ("SCRAM-SHA-256", "plain.Plain", False),
    ("PLAIN", "oauthbearer.OAuthBearer", False),
])  # fmt: skip
def test_login_module_must_fit_the_mechanism(
    tmp_path: Path, mechanism: str, module: str, is_accepted: bool
) -> None:
    """kafka-acls accepts the same pairs. With others, it prints errors for a minute."""
    text = (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config="
        f"org.apache.kafka.common.security.{module}LoginModule required "
        'username="a" password="TOP";'
    )
    if is_accepted:
        credentials = settings(tmp_path, text).credentials
        assert isinstance(credentials, Credentials)
        assert credentials.mechanism == mechanism
    else:
        assert "sasl.jaas.config: expected the login module org.apache" in refusal(tmp_path, text)


KAFKA = "org.apache.kafka.common.KafkaException: Failed to create new"
TLS_ERROR = (
    "Error while executing ACL command: Failed to create new KafkaAdminClient\n"
    f"{KAFKA} KafkaAdminClient\nCaused by: {KAFKA} NetworkClient\nCaused by: "
    "org.apache.kafka.common.errors.InvalidConfigurationException: {0}\n\n"
)


def test_tls_keys_are_those_of_kafka(tmp_path: Path) -> None:
    """ssl.protocol and other keys that only Java uses are ignored."""
    given = settings(
        tmp_path,
        "security.protocol=ssl\nssl.truststore.type=PEM\nssl.truststore.location=/ca.pem\n"
        "ssl.keystore.location=/client.p12\nssl.keystore.password=TOP\n"
        "ssl.keystore.type=PKCS12\nssl.protocol=TLSv1.3\nssl.enabled.protocols=TLSv1.3\n"
        "ssl.endpoint.identification.algorithm=\n",
    ).tls
    assert given is not None
    assert given.truststore is not None
    assert given.keystore is not None
    assert (given.truststore.location, given.truststore.type) == ("/ca.pem", "PEM")
    assert (given.keystore.location, given.keystore.password) == ("/client.p12", "TOP")
    assert (given.protocols, given.checks_host) == (("TLSv1.3",), False)
    assert "TOP" not in repr(given)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "PLAINTEXT", "SASL_PLAINTEXT"])
def test_tls_and_log_in_follow_the_security_protocol(tmp_path: Path, protocol: str) -> None:
    """By default, the host is checked, and the system's CAs are trusted."""
    jaas_line = f'sasl.jaas.config={MODULE} required username="a" password="b";'
    text = f"security.protocol={protocol}\nsasl.mechanism=PLAIN\n{jaas_line}"
    given = settings(tmp_path, text)
    assert (given.tls is not None) is protocol.endswith("SSL")
    assert (given.credentials is not None) is protocol.startswith("SASL")
    if given.tls is not None:
        assert given.tls.checks_host
        assert (given.tls.truststore, given.tls.keystore) == (None, None)


@pytest.mark.parametrize(("text", "key", "value", "reason"), [
    ("ssl.enabled.protocols=SSLv3", "ssl.enabled.protocols", "SSLv3", "invalid protocol"),
    ("ssl.cipher.suites=NOPE", "ssl.cipher.suites", "NOPE", "invalid cipher suite"),
    ("ssl.endpoint.identification.algorithm=ldaps",
     *("ssl.endpoint.identification.algorithm", "ldaps", "expected https")),
    ("ssl.truststore.type=FOO", "ssl.truststore.type", "FOO", "expected one of"),
    ("ssl.engine.factory.class=a.B", "ssl.engine.factory.class", "a.B", "a Java class"),
])  # fmt: skip
def test_bad_tls_property_is_named(
    tmp_path: Path, text: str, key: str, value: str, reason: str
) -> None:
    said = refusal(tmp_path, f"security.protocol=SSL\n{text}")
    assert f"ConfigException: Invalid value {value} for configuration {key}: {reason}" in said


@pytest.mark.parametrize(("text", "reason"), [
    ("ssl.keystore.key=TOP", "ssl.keystore.certificate.chain: the certificate chain"),
    ("ssl.truststore.location=/a\nssl.truststore.certificates=TOP",
     "ssl.truststore.certificates: set either this or ssl.truststore.location"),
    ("ssl.truststore.type=PEM\nssl.truststore.location=/a\nssl.truststore.password=TOP",
     "ssl.truststore.password: PEM has no password"),
])  # fmt: skip
def test_contradicting_tls_properties_are_rejected(tmp_path: Path, text: str, reason: str) -> None:
    said = refusal(tmp_path, f"security.protocol=SSL\n{text}")
    assert said.startswith(TLS_ERROR.format(reason).rstrip())
    assert "TOP" not in said


@pytest.mark.parametrize("key", ["truststore", "keystore"])
def test_unusable_store_is_rejected(tmp_path: Path, key: str) -> None:
    """The error comes before a connection is made."""
    missing, garbage = tmp_path / "none", tmp_path / "garbage.pem"
    garbage.write_text("-----BEGIN garbage")
    for path, reason in ((missing, "No such file or directory"), (garbage, "has no certificate")):
        text = f"security.protocol=SSL\nssl.{key}.location={path}"
        given = settings(tmp_path, text).tls
        assert given is not None
        with pytest.raises(KafkaAclsError) as error:
            open_context(given)
        assert f"ssl.{key}.location: {path}: {reason}" in str(error.value)


SCRAM = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="


@pytest.mark.parametrize(("text", "reason"), [
    (f"{SASL}x required;", f": expected the login module {MODULE}"),
    (f'{SASL}{MODULE} required username="a" password="TOP"', ": option 3: expected NAME="),
    (f'{SASL}{MODULE} required password="TOP";', ": username and password must be given"),
    (f'{SASL}{MODULE} required username="" password="TOP";',
     ": username and password must be given"),
    (f'{SASL}{MODULE} required username="a";', ": username and password must be given"),
    (f'{SCRAM}{SCRAM_LOGIN_MODULE} required username="a" password="TOP" tokenauth="True";',
     ": tokenauth=true (delegation tokens) is not supported"),
    ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n", ": required for authentication"),
])  # fmt: skip
def test_invalid_jaas_line_is_rejected_without_its_values(
    tmp_path: Path, text: str, reason: str
) -> None:
    said = refusal(tmp_path, text)
    assert f"sasl.jaas.config{reason}" in said
    assert "TOP" not in said


def test_unreadable_command_config_is_reported_as_java_does(tmp_path: Path) -> None:

    def said(path: Path) -> str:
        with pytest.raises(KafkaAclsError) as error:
            read_settings(
                parse_arguments(["--bootstrap-server", "h:1", "--command-config", str(path)])
            )
        return str(error.value)

    missing = tmp_path / "none"
    assert said(missing) == (
        f"Error while executing ACL command: {missing}\n"
        f"java.nio.file.NoSuchFileException: {missing}\n\n"
    )
    assert "java.io.IOException: Is a directory\n" in said(tmp_path)
    assert "java.lang.IllegalArgumentException: " in refusal(tmp_path, "a=\\u12")
    assert "java.lang.IllegalArgumentException: " in said(Path("a\0b"))
