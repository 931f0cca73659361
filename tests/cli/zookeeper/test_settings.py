from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from authorizerd.cli.zookeeper.errors import ZooKeeperError
from authorizerd.cli.zookeeper.options import WriteOptions, add_write_arguments, read_write_options
from authorizerd.cli.zookeeper.settings import (
    Login,
    ZooKeeperSettings,
    parse_address,
    read_settings,
)
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.tls import StoreType
from authorizerd.daemon.errors import StartError

SECRET = "Pa55-word"
DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
BROKER = """
zookeeper.connect=zk1:2182/kafka
zookeeper.ssl.client.enable=true
zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
zookeeper.ssl.keystore.location=/etc/kafka/zk.p12
zookeeper.ssl.keystore.password=Pa55-word
zookeeper.ssl.truststore.location=/etc/kafka/ca.pem
zookeeper.ssl.truststore.password=Pa55-word
zookeeper.set.acl=true
ssl.keystore.location=/etc/kafka/listener.jks
log.dirs=/data
"""


def read(tmp_path: Path, text: str) -> ZooKeeperSettings:
    file = tmp_path / "server.properties"
    file.write_text(text)
    return read_settings(file)


@pytest.mark.parametrize(("text", "servers", "chroot"), [
    ("zk1", ("zk1:2181",), ""),
    ("zk1:2182/", ("zk1:2182",), ""),
    ("zk1:1,zk-2.example:65535/a/b", ("zk1:1", "zk-2.example:65535"), "/a/b"),
    ("zk1, [::1]:2181/kafka/", ("zk1:2181", "[::1]:2181"), "/kafka"),
])  # fmt: skip
def test_address_is_read_as_zookeeper_connect(
    text: str, servers: tuple[str, ...], chroot: str
) -> None:
    assert parse_address(text) == (servers, chroot)
    assert parse_address(str(parse_address(text))) == (servers, chroot)


@pytest.mark.parametrize(("text", "reason"), [
    ("", "expected zookeeper://HOST:PORT"),
    ("zk1:0", "found the server 'zk1:0'"),
    ("zk1:65536", "found the server 'zk1:65536'"),
    ("zk1,,zk2", "found the server ''"),
    ("zk1/a,zk2/b/../c", "a znode cannot be named '..'"),
    ("zk1//a", "a znode cannot be named ''"),
    ("zk1/a\n", "cannot contain the character U+000A"),
    (f"admin:{SECRET}@zk1:2181", "found the server 'zk1:2181'"),
    (",".join(["zk"] * 101), "expected at most 100 servers"),
])  # fmt: skip
def test_malformed_address_is_rejected_without_a_password(text: str, reason: str) -> None:
    with pytest.raises(ZooKeeperError) as caught:
        parse_address(text)
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


def test_defaults_are_those_of_kafka(tmp_path: Path) -> None:
    assert read_settings(None) == read(tmp_path, "broker.id=1") == ZooKeeperSettings()
    assert not ZooKeeperSettings().is_authenticated
    read_ms = read(tmp_path, "zookeeper.session.timeout.ms=7000")
    assert (read_ms.session_timeout_ms, read_ms.connection_timeout_ms) == (7000, 7000)
    read_ms = read(tmp_path, "zookeeper.connection.timeout.ms=500")
    assert (read_ms.session_timeout_ms, read_ms.connection_timeout_ms) == (18_000, 500)


def test_server_properties_of_a_broker_can_be_used_as_they_are(tmp_path: Path) -> None:
    settings = read(tmp_path, BROKER)
    tls = settings.tls
    assert tls is not None
    assert tls.keystore is not None
    assert (tls.keystore.location, tls.keystore.password) == ("/etc/kafka/zk.p12", SECRET)
    assert tls.truststore is not None
    assert (tls.truststore.location, tls.truststore.password) == ("/etc/kafka/ca.pem", None)
    assert tls.protocols == ("TLSv1.2",)
    assert tls.checks_host
    assert settings.is_authenticated
    assert SECRET not in repr(settings)


def test_keys_of_the_authorizer_take_precedence(tmp_path: Path) -> None:
    text = (
        BROKER
        + "authorizer.zookeeper.ssl.keystore.location=/other.pem\n"
        + "authorizer.zookeeper.ssl.enabled.protocols=TLSv1.3\n"
        + "authorizer.zookeeper.ssl.endpoint.identification.algorithm=\n"
        + "authorizer.zookeeper.ssl.truststore.type=PEM\n"
    )
    tls = read(tmp_path, text).tls
    assert tls is not None
    assert tls.keystore is not None
    assert (tls.keystore.location, tls.keystore.password) == ("/other.pem", None)
    assert tls.keystore.key_password == SECRET
    assert tls.truststore is not None
    assert tls.truststore.type is StoreType.PEM
    assert tls.protocols == ("TLSv1.3",)
    assert not tls.checks_host


def test_log_ins_are_read_without_showing_the_password(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        f"authorizerd.zookeeper.sasl.jaas.config={DIGEST_MODULE} required "
        f'username="kafka" password="{SECRET}";\n'
        f"authorizerd.zookeeper.digest=admin:{SECRET}:x\n",
    )
    assert settings.sasl == Login("kafka", SECRET)
    assert settings.digest == Login("admin", f"{SECRET}:x")
    assert settings.is_authenticated
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(("text", "reason"), [
    ("zookeeper.ssl.truststore.location=/ca.pem",
     "zookeeper.ssl.truststore.location: set zookeeper.ssl.client.enable as well"),
    ("zookeeper.ssl.client.enable=yes", "expected true or false"),
    (BROKER + "zookeeper.ssl.crl.enable=true", "revocation lists are not supported"),
    (BROKER + "zookeeper.ssl.ocsp.enable=true", "revocation lists are not supported"),
    (BROKER + "zookeeper.ssl.protocol=TLSv1", "expected TLSv1.2 or TLSv1.3"),
    (BROKER + "zookeeper.ssl.keystore.type=BCFKS", "expected one of JKS, PKCS12, PEM"),
    (BROKER + "zookeeper.ssl.keystore.location=", "zookeeper.ssl.keystore.location: expected"),
    ("zookeeper.session.timeout.ms=0", "expected an integer from 100 to 600000"),
    (f"authorizerd.zookeeper.digest={SECRET}", "expected USER:PASSWORD"),
    (f"authorizerd.zookeeper.digest=:{SECRET}", "expected USER:PASSWORD"),
    (f'authorizerd.zookeeper.sasl.jaas.config={DIGEST_MODULE} required password="{SECRET}";',
     "username and password must be given"),
    ("authorizerd.zookeeper.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule "
     f'required password="{SECRET}";', f"expected the login module {DIGEST_MODULE}"),
])  # fmt: skip
def test_invalid_key_is_shown_without_password(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


def test_tls_can_be_turned_off_in_so_many_words(tmp_path: Path) -> None:
    text = BROKER.replace("enable=true", "enable=false")
    assert read(tmp_path, text) == ZooKeeperSettings()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"--command-config: .*none: No such file"):
        read_settings(tmp_path / "none")


@pytest.mark.parametrize(("words", "expected"), [
    ([], WriteOptions()),
    (
        ["--zk-oldest-broker", "2.4", "--zk-open-acls", "--zk-jute-maxbuffer", "4194304"],
        WriteOptions((2, 4), 4_194_304, True),  # type: ignore[arg-type] # equal as tuples
    ),
])  # fmt: skip
def test_flags_state_what_the_cluster_is_like(words: list[str], expected: WriteOptions) -> None:
    parser = argparse.ArgumentParser()
    add_write_arguments(parser)
    options = read_write_options(parser.parse_args(words))
    assert options == expected
    assert options.flags == [word for word in words if word.startswith("--")][:1] + [
        word for word in ("--zk-jute-maxbuffer", "--zk-open-acls") if word in words
    ]


@pytest.mark.parametrize("words", [
    ["--zk-oldest-broker", "4.0"],
    ["--zk-jute-maxbuffer", "0"],
    ["--zk-jute-maxbuffer", "1e6"],
    ["--zk-jute-maxbuffer", "99999999999"],
])  # fmt: skip
def test_impossible_flags_are_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_write_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert f"argument {words[0]}: expected a" in capsys.readouterr().err
