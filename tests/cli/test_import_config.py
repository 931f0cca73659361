"""``authorizerd import-config``: a broker's file becomes that of a follower of its cluster."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.follower_file import import_broker
from authorizerd.cli.main import main
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.follow.settings import LogIn, Server
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from authorizerd.config.properties import Property
from tests.support.fixture_types import Capture

PASSWORD = 'a"b\\c é=\t\U0001f511'
KEY_PASSWORD = "hidden-key-password"
BROKER = {
    "process.roles": "broker",
    "node.id": "4",
    "controller.quorum.bootstrap.servers": "c1:9093,c2:9093",
    "listeners": "SASL_SSL://:9092",
    "controller.listener.names": "CONTROLLER,OTHER",
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL,OTHER:SSL",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
    "listener.name.controller.scram-sha-512.sasl.jaas.config": (
        f'{SCRAM_LOGIN_MODULE} required username="broker" password="hidden-password";'
    ),
    "ssl.keystore.location": "/etc/kafka/keys.p12",
    "ssl.keystore.password": "hidden-general-password",
    "ssl.truststore.location": "/etc/kafka/trust.pem",
    "listener.name.controller.ssl.keystore.password": KEY_PASSWORD,
    "ssl.client.auth": "required",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:CN=broker,O=x",
    "allow.everyone.if.no.acl.found": "true",
    "log.dirs": "/data",
    "num.partitions": "3",
}


def write(folder: Path, changes: dict[str, str | None]) -> Path:
    """Write a broker's file; a change to None removes a key."""
    path = folder / "broker.properties"
    values = {**BROKER, **changes}
    path.write_text("".join(f"{k}={v}\n" for k, v in values.items() if v is not None))
    return path


def convert(folder: Path, changes: dict[str, str | None]) -> tuple[int, Configuration]:
    """Return the exit code, and the configuration that was written."""
    made = folder / "made.properties"
    code = main(["import-config", str(write(folder, changes)), "--output", str(made)])
    return code, parse(made.read_text("iso-8859-1"), source="made")


def test_brokers_file_becomes_that_of_a_follower(tmp_path: Path) -> None:
    code, configuration = convert(tmp_path, {})
    assert code == 0
    follow = configuration.follow
    assert follow is not None
    assert follow.servers == (Server("c1", 9093), Server("c2", 9093))
    expected = LogIn(mechanism="SCRAM-SHA-512", username="broker", password="hidden-password")
    assert follow.log_in == expected
    assert follow.tls is not None
    assert follow.tls.keystore is not None
    assert follow.tls.keystore.location == "/etc/kafka/keys.p12"
    assert follow.tls.keystore.password == KEY_PASSWORD
    assert follow.tls.truststore is not None
    assert follow.tls.truststore.location == "/etc/kafka/trust.pem"
    values = configuration.file_values
    assert values["super.users"] == BROKER["super.users"]
    assert values["allow.everyone.if.no.acl.found"] == "true"
    assert configuration.node_id == 1_000_000
    assert configuration.metadata_log_dir == "/var/lib/authorizerd/copy"
    assert [each.port for each in configuration.listeners] == [9096]
    assert configuration.ignored_keys == ()


def test_written_file_is_new_and_only_its_owner_reads_it(tmp_path: Path, capfd: Capture) -> None:
    convert(tmp_path, {})
    made = tmp_path / "made.properties"
    assert made.stat().st_mode & 0o777 == 0o600
    before = made.read_bytes()
    assert main(["import-config", str(write(tmp_path, {})), "--output", str(made)]) == 1
    assert "exists: name a new file, or remove it" in capfd.readouterr().err
    assert made.read_bytes() == before
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    assert main(["import-config", str(write(tmp_path, {})), "--output", str(link)]) == 1
    assert not (tmp_path / "target").exists()


def test_cluster_id_is_taken_from_the_brokers_directory(tmp_path: Path) -> None:
    assert convert(tmp_path, {"log.dirs": str(tmp_path / "data")})[1].follow is not None
    (tmp_path / "made.properties").unlink()
    (tmp_path / "data").mkdir()
    properties = "version=1\ncluster.id=abc-1\nnode.id=4\ndirectory.id=AAAA\n"
    (tmp_path / "data" / "meta.properties").write_text(properties)
    code, configuration = convert(tmp_path, {"log.dirs": f"{tmp_path / 'data'},/other"})
    assert code == 0
    assert configuration.follow is not None
    assert configuration.follow.cluster_id == "abc-1"


def test_secrets_are_not_printed(tmp_path: Path, capfd: Capture) -> None:
    assert main(["import-config", str(write(tmp_path, {}))]) == 0
    printed = capfd.readouterr()
    assert "hidden" not in printed.out + printed.err
    for key in (
        "listener.name.controller.scram-sha-512.sasl.jaas.config",
        "listener.name.controller.ssl.keystore.password",
    ):
        assert f"# {key}: a secret, which is written only with --output FILE.\n" in printed.out
        assert f"{key} is a secret" in printed.err


def test_printed_configuration_names_what_is_left_out(tmp_path: Path, capfd: Capture) -> None:
    main(["import-config", str(write(tmp_path, {})), "--node-id", "77", "--log-dir", "/d"])
    lines = capfd.readouterr().out.splitlines()
    assert "node.id=77" in lines
    assert "log.dirs=/d" in lines
    comment = " ".join(each.lstrip("# ") for each in lines[lines.index("log.dirs=/d") :])
    assert comment.endswith("does not need them: num.partitions, ssl.client.auth")


def test_probable_mistakes_of_the_broker_are_named(tmp_path: Path, capfd: Capture) -> None:
    """The file and the exit code stay the same."""
    changes = {"super.users": "User:a,User:${ADMIN}", "listner.security.protocol.map": "A:B"}
    assert main(["import-config", str(write(tmp_path, dict(changes)))]) == 0
    printed = capfd.readouterr()
    assert "User:a,User:${ADMIN}" in printed.out
    assert printed.err.splitlines()[-3:] == [
        "authorizerd: warning: left out listner.security.protocol.map, which Kafka ignores too: did"
        " you mean listener.security.protocol.map?",
        "authorizerd: warning: super.users has the placeholder ${ADMIN}, which nothing replaces: "
        "write the value",
        "authorizerd: warning: super.users: 'User:a,User:${ADMIN}' is one principal: separate"
        " entries by semicolons",
    ]


def test_document_has_what_the_lines_have_without_secrets(tmp_path: Path, capfd: Capture) -> None:
    changes = {"super.user": "User:a", "controller.quorum.voters": "1000000@c:1"}
    path = str(write(tmp_path, dict(changes)))
    for words, output in (([], None), (["--output", str(tmp_path / "o")], str(tmp_path / "o"))):
        assert main(["import-config", path, "--json", *words]) == 3
        printed = capfd.readouterr()
        assert (printed.err, "hidden" in printed.out) == ("", False)
        document = json.loads(printed.out)
        assert document["output"] == output
        values = document["values"]
        assert values["controller.quorum.bootstrap.servers"] == "c1:9093,c2:9093"
        assert document["secrets"] == [
            "listener.name.controller.scram-sha-512.sasl.jaas.config",
            "listener.name.controller.ssl.keystore.password",
        ]
        assert values.keys().isdisjoint(document["secrets"])
        assert document["left_out"] == ["num.partitions", "ssl.client.auth", "super.user"]
        assert document["notes"][0].startswith("the daemon logs in as broker")
        assert [each.split(",")[0] for each in document["warnings"]] == ["left out super.user"]
        assert [each["key"] for each in document["changes_before_use"]] == ["node.id"]
    assert "hidden-password" in (tmp_path / "o").read_text()


@pytest.mark.parametrize(("changes", "code", "said"), [
    ({"controller.quorum.bootstrap.servers": None}, 1, "this is not the file of a broker"),
    ({"controller.quorum.bootstrap.servers": None, "zookeeper.connect": "zk:2181"}, 1,
     "run authorizerd acls export --from zookeeper://HOST:PORT --to FILE"),
    ({"controller.listener.names": None}, 1, "expected controller.listener.names"),
    ({"listener.security.protocol.map": "SASL_SSL:SASL_SSL"}, 1,
     "listener.security.protocol.map has no security protocol for CONTROLLER"),
    ({"sasl.mechanism.controller.protocol": "GSSAPI"}, 3,
     "the brokers log in to controllers with GSSAPI, which is not copied"),
    ({"sasl.mechanism.controller.protocol": None}, 3, "with GSSAPI, which is not copied"),
    ({"config.providers": "file",
      "listener.name.controller.scram-sha-512.sasl.jaas.config": "${file:/s:jaas}"}, 3,
     "jaas.config is left out: the daemon cannot ask its provider file"),
    ({"ssl.enabled.protocols": "TLSv1.1"}, 3, "ssl.enabled.protocols is left out: invalid"),
    ({"config.providers": "k8s",
      "config.providers.k8s.class": "io.strimzi.kafka.KubernetesSecretConfigProvider",
      "ssl.keystore.location": "${k8s:a/b:c}"}, 3,
     "change before use: ssl.keystore.location: the broker sets it to a value that is not"),
    ({"authorizer.class.name": None}, 0, "the broker has no authorizer"),
    ({"authorizer.class.name": "com.example.Ranger"}, 0, "the brokers use com.example.Ranger"),
    ({"principal.builder.class": "com.example.Names"}, 0, "from com.example.Names, which"),
    ({"controller.quorum.voters": "1000000@c:1"}, 3, "1000000 is the id of a controller"),
    ({"config.providers": "file", "super.users": "${file:/etc/kafka/s:users}"}, 3,
     "change before use: super.users: the broker sets it to a value that is not known"),
    ({"allow.everyone.if.no.acl.found": "maybe"}, 3, "change before use: allow.everyone."),
    ({"super.users": None, "allow.everyone.if.no.acl.found": None}, 0, ""),
    ({"authorizer.class.name": "x\\n\\u001b[1msuper.users=User:evil"}, 0, "the brokers use x"),
])  # fmt: skip
def test_what_cannot_be_taken_over_is_said(
    tmp_path: Path, capfd: Capture, changes: dict[str, str | None], code: int, said: str
) -> None:
    assert main(["import-config", str(write(tmp_path, changes))]) == code
    printed = capfd.readouterr()
    shown = " ".join(line.lstrip("# ") for line in (printed.out + printed.err).splitlines())
    assert said in shown
    assert "hidden" not in shown
    assert "\nsuper.users=User:evil" not in printed.out
    assert "\x1b" not in printed.out + printed.err


def test_placeholders_are_carried_over_with_their_providers(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts that they stand for are not written, and a placeholder without one is named."""
    package = "org.apache.kafka.common.config.provider."
    jaas = "listener.name.controller.scram-sha-512.sasl.jaas.config"
    password = "listener.name.controller.ssl.keystore.password"
    changes: dict[str, str | None] = {
        "config.providers": "env,file",
        "config.providers.env.class": f"{package}EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "MY_.*",
        "config.providers.file.class": f"{package}FileConfigProvider",
        jaas: f'{SCRAM_LOGIN_MODULE} required username="broker" password="${{env:MY_PW}}";',
        password: "${env:MY_KEY}",
    }
    path = str(write(tmp_path, changes))
    assert main(["import-config", path]) == 3
    assert f"change before use: {jaas}: ${{env:MY_PW}}: " in capfd.readouterr().err
    monkeypatch.setenv("MY_PW", "hidden-1")
    monkeypatch.setenv("MY_KEY", "hidden-2")
    assert main(["import-config", path]) == 0
    printed = capfd.readouterr().out
    assert "hidden" not in printed
    assert "config.providers=env\n" in printed
    assert "\nconfig.providers.file" not in printed
    follow = parse(printed, source="made").follow
    assert follow is not None
    assert follow.log_in == LogIn(mechanism="SCRAM-SHA-512", username="broker", password="hidden-1")
    changes[jaas] = "${env:MY_PW}"  # a whole line
    assert main(["import-config", str(write(tmp_path, changes))]) == 3
    last = capfd.readouterr()
    assert f"{jaas}=${{env:MY_PW}}" in last.out
    assert "hidden" not in last.out + last.err


@pytest.mark.parametrize(("listeners", "name", "protocol"), [
    ("PLAINTEXT://:9092", "CONTROLLER", "PLAINTEXT"),
    ("PLAINTEXT://:9092", "SSL", "SSL"),
    ("SSL://:9092", "PLAINTEXT", "PLAINTEXT"),
    ("PLAINTEXT://:9092", "LOCAL", "PLAINTEXT"),
])  # fmt: skip
def test_security_protocol_is_that_of_the_broker(
    tmp_path: Path, listeners: str, name: str, protocol: str
) -> None:
    """As in Kafka, it depends on all listeners if there is no map."""
    changes: dict[str, str | None] = {
        "listeners": listeners,
        "controller.listener.names": name,
        "listener.security.protocol.map": None,
    }
    code, configuration = convert(tmp_path, changes)
    assert code == 0
    assert configuration.follow is not None
    assert (configuration.follow.tls is not None) == (protocol == "SSL")


@given(
    user=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    password=st.text(st.characters(codec="utf-8", exclude_characters="\0")),
)
def test_any_user_and_password_survive(user: str, password: str) -> None:
    """Both are escaped twice: for the JAAS line, and for the file."""
    # Kafka takes the character after a backslash, even an end of a line, as it is.
    quoted = [re.sub(r'["\\\r\n]', r"\\\g<0>", each) for each in (user, password)]
    line = f'{PLAIN_LOGIN_MODULE} required username="{quoted[0]}" password="{quoted[1]}" user_a=b;'
    jaas = "listener.name.controller.plain.sasl.jaas.config"
    values = {**BROKER, "sasl.mechanism.controller.protocol": "PLAIN", jaas: line}
    properties = {
        key: Property(key=key, value=value, source="b", line=1) for key, value in values.items()
    }
    made = import_broker(properties, source="b", node_id=None, log_dir="/d")
    text = made.write(with_secrets=True).encode("ascii", "backslashreplace").decode()
    follow = parse(text, source="made").follow
    assert follow is not None
    assert follow.log_in == LogIn(mechanism="PLAIN", username=user, password=password)
    assert "user_a" not in text


@given(
    st.dictionaries(
        st.sampled_from([*BROKER, "config.providers", "controller.quorum.voters", "a\nb=c"]),
        st.sampled_from(
            ["", "x", "1", "LOCAL", "PLAINTEXT", "SASL_SSL://:1", "${x}", "1@h:1", "é\n"]
        ),
    )
)
def test_any_file_is_converted_or_refused(changes: dict[str, str]) -> None:
    """The output is always a file of properties without secrets."""
    properties = {
        key: Property(key=key, value=value, source="b", line=1)
        for key, value in {**BROKER, **changes}.items()
    }
    try:
        made = import_broker(properties, source="b", node_id=None, log_dir="/d")
    except (InvalidValueError, ConfigurationError):
        return
    printed = made.write(with_secrets=False)
    assert "hidden" not in printed
    keys = [line.key for line in made.lines if not line.is_secret]
    shown = [line for line in printed.splitlines() if line and not line.startswith("#")]
    assert len(shown) == len(keys)
