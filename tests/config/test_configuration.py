import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.filter import AuditRules, name_patterns
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.model import ResourceType
from authorizerd.config.configuration import SETTINGS, parse, parse_values
from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.values import AuditFormat, LogFormat, SecurityProtocol
from tests.config.properties_file import BASE, SOURCE, configure, endpoint, refuse
from tests.support.sasl import sasl_settings

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_two_keys_suffice() -> None:
    """Every other key has its default."""
    made = configure()
    assert made.node_id == 1
    assert made.metadata_log_dir == "/var/lib/kafka"
    assert (
        made.listeners == made.advertised_listeners == (endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    )
    assert made.controller_listener_names == ()
    assert made.early_start_listeners == frozenset()
    assert (made.follow, made.http_tls) == (None, None)
    assert (made.sasl_listeners, made.listener_tls) == ({}, {})
    assert made.listener_max_connections == made.listener_creation_rates == {}
    assert made.callers == {"ask": frozenset(), "search": frozenset(), "read": frozenset()}
    assert made.audit_rules == AuditRules()
    assert made.file_values == {"node.id": "1", "log.dirs": "/var/lib/kafka"}
    assert made.ignored_keys == ()


@pytest.mark.parametrize("field", sorted(SETTINGS.keys() - {"listeners"}))
def test_field_has_the_default_of_its_key(field: str) -> None:
    default = SETTINGS[field].default
    if default is not None:
        assert getattr(configure(), field) == SETTINGS[field].parse(default)


def test_file_of_a_kafka_node_is_accepted() -> None:
    """Keys of Kafka that the daemon does not use are listed as ignored."""
    text = """\
# A combined node.
process.roles=broker,controller
node.id=3
controller.quorum.voters=3@127.0.0.1:19093
listeners=SASL_PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093
advertised.listeners=SASL_PLAINTEXT://broker.example.com:19092
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_PLAINTEXT
listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="admin" password="admin-secret" user_admin="admin-secret" user_broker="b c";
listener.name.controller.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required user_admin=other-secret;
listener.name.controller.sasl.enabled.mechanisms=PLAIN
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:CN=kafka,O=Example
allow.everyone.if.no.acl.found=false
log.dirs=/data/1,/data/2
num.partitions=1
connections.max.idle.ms=540000

authorizerd.decision.http = http://localhost:0
authorizerd.audit.log = /var/log/authorizerd/audit.log
authorizerd.audit.format = json
authorizerd.audit.level = DEBUG
authorizerd.log.format = json
"""
    sasl = SecurityProtocol.SASL_PLAINTEXT
    expected = dataclasses.replace(
        configure(),
        node_id=3,
        metadata_log_dir="/data/1",
        listeners=(
            endpoint("SASL_PLAINTEXT", "127.0.0.1", 19092, sasl),
            endpoint("CONTROLLER", "127.0.0.1", 19093, sasl),
        ),
        advertised_listeners=(endpoint("SASL_PLAINTEXT", "broker.example.com", 19092, sasl),),
        controller_listener_names=("CONTROLLER",),
        early_start_listeners=frozenset({"CONTROLLER"}),
        sasl_listeners={
            "SASL_PLAINTEXT": sasl_settings(users={"admin": "admin-secret", "broker": "b c"}),
            "CONTROLLER": sasl_settings(users={"admin": "other-secret"}),
        },
        decision_http=HttpEndpoint(host="localhost", port=0),
        log_format=LogFormat.JSON,
        audit_log="/var/log/authorizerd/audit.log",
        audit_format=AuditFormat.JSON,
        ignored_keys=(
            "controller.quorum.voters",
            "inter.broker.listener.name",
            "num.partitions",
            "process.roles",
        ),
        super_users=frozenset({"User:admin", "User:CN=kafka,O=Example"}),
        audit_level=AuditLevel.DEBUG,
        connections_max_idle_ms=540000,
    )
    assert parse(text, source=SOURCE) == expected


def test_each_key_sets_its_field() -> None:
    configuration = configure(
        "max.connections=11", "connections.max.idle.ms=9223372036854775807",
        "authorizerd.decision.http=http://[::1]:1", "authorizerd.admin.http=http://127.0.0.2:2",
        "authorizerd.http.request.max.bytes=1024", "authorizerd.http.header.timeout.ms=13",
        "authorizerd.http.drain.timeout.ms=0", "authorizerd.audit.queue.max=14",
        "authorizerd.workers=15", "authorizerd.worker.timeout.ms=1600",
        "authorizerd.authzen.subject.types=person=User,team=Group",
        "authorizerd.authzen.resource.types=stream=TOPIC", "allow.everyone.if.no.acl.found= TRUE ",
    )  # fmt: skip
    assert configuration.max_connections == 11
    assert configuration.connections_max_idle_ms == 2**63 - 1
    assert configuration.decision_http == HttpEndpoint(host="::1", port=1)
    assert configuration.admin_http == HttpEndpoint(host="127.0.0.2", port=2)
    assert configuration.http_request_max_bytes == 1024
    assert configuration.http_header_timeout_ms == 13
    assert configuration.http_drain_timeout_ms == 0
    assert configuration.audit_queue_max == 14
    assert (configuration.workers, configuration.worker_timeout_ms) == (15, 1600)
    assert configuration.authzen_subject_types == {"person": "User", "team": "Group"}
    assert configuration.authzen_resource_types == {"stream": 2}


def test_configuration_is_immutable() -> None:
    configuration = configure()
    with pytest.raises(dataclasses.FrozenInstanceError):
        configuration.node_id = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        configuration.audit_level = AuditLevel.TRACE  # type: ignore[misc]
    with pytest.raises(TypeError):
        configuration.authzen_subject_types["x"] = "User"  # type: ignore[index]


UNKNOWN_KEY = "unknown key: `authorizerd docs configuration` lists all that begin with authorizerd."
NO_ENTRY = "expected at least one entry, found an empty value"
NO_PATH = "expected a path, found an empty value"
NOT_LOOPBACK = (
    "is not a loopback address (127.0.0.0/8, ::1, localhost): set authorizerd.tokens.file, use TLS"
    " with authorizerd.http.ssl.client.auth, or use a loopback address"
)
BAD_LINES = [
    ("node.id=-1", "expected an integer from 0 to 2147483647, found '-1'"),
    ("node.id=2147483648", "expected an integer from 0 to 2147483647, found '2147483648'"),
    ("node.id=", "expected an integer from 0 to 2147483647, found an empty value"),
    ("log.dirs=", NO_ENTRY),
    ("log.dir=/a,", "entry 2 of the comma-separated list is empty"),
    ("metadata.log.dir=", NO_PATH),
    ("listeners=PLAINTXT",
     "invalid address 'PLAINTXT': expected NAME://host:port (an IPv6 host in brackets)"),
    ("listeners=PLAINTXT://:1",
     "listener.security.protocol.map has no security protocol for PLAINTXT:"
     " add PLAINTXT:PROTOCOL to the map"),
    ("listeners=SSL://h:1,PLAINTEXT://g:1", "SSL and PLAINTEXT have the same port 1"),
    ("listeners=SSL://h:1,ssl://g:2", "the name SSL occurs twice"),
    ("listeners=PLAINTEXT://0.0.0.0:9092",
     "PLAINTEXT cannot be advertised as 0.0.0.0: set advertised.listeners"),
    ("advertised.listeners=PLAINTEXT://0.0.0.0:9092",
     "PLAINTEXT cannot be advertised as 0.0.0.0: give an address"),
    ("advertised.listeners=", NO_ENTRY),
    ("advertised.listeners=SSL://h:9092", "unknown listener SSL: expected one of PLAINTEXT"),
    ("listener.security.protocol.map=PLAINTEXT:PLAIN",
     "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, found 'PLAIN'"),
    ("controller.listener.names=", NO_ENTRY),
    ("controller.listener.names=CONTROLLER",
     "unknown listener CONTROLLER: expected one of PLAINTEXT"),
    ("controller.listener.names=PLAINTEXT,plaintext",
     "unknown listener plaintext: expected one of PLAINTEXT"),
    ("early.start.listeners=,", "entry 1 of the comma-separated list is empty"),
    ("early.start.listeners=PLAINTEXT,NOPE", "unknown listener NOPE: expected one of PLAINTEXT"),
    ("super.users=User:a;bob",
     "invalid entry 'bob': expected Type:name (semicolons separate the entries)"),
    ("allow.everyone.if.no.acl.found=yes", "expected true or false, found 'yes'"),
    ("authorizer.class.name=Mine", "expected module.Class, found 'Mine'"),
    ("authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
     f"kafka.security.authorizer.AclAuthorizer requires ZooKeeper: use {STANDARD} instead"),
    *(
        (
            f"zookeeper.connect={value}",
            "StandardAuthorizer does not run with ZooKeeper (KIP-801): remove this key",
        )
        for value in ("localhost:2181", "")
    ),
    ("controller.quorum.bootstrap.servers=localhost",
     "invalid address 'localhost': expected host:port (an IPv6 host in brackets)"),
    ("controller.quorum.bootstrap.servers=localhost:0",
     "invalid address 'localhost:0': expected a port from 1 to 65535"),
    ("controller.quorum.voters=a:1", "invalid voter 'a:1': expected id@host:port"),
    ("controller.quorum.voters=-1@a:1", "invalid voter '-1@a:1': expected id@host:port"),
    ("controller.quorum.voters=2@a:1,2@b:1", "the voter 2 occurs twice"),
    ("max.connections.per.ip.overrides=10.0.0.1:5,broker:1",
     "invalid entry 'broker:1': expected ADDRESS:NUMBER, such as 10.0.0.1:100"),
    ("max.connections.per.ip.overrides=10.0.0.1:many",
     "expected an integer from 1 to 2147483647, found 'many'"),
    *(
        (f"{key}=0", "expected an integer from 1 to 2147483647, found '0'")
        for key in (
            "max.connections",
            "max.connection.creation.rate",
            "listener.name.plaintext.max.connection.creation.rate",
            "quota.window.num",
            "quota.window.size.seconds",
        )
    ),
    ("connections.max.idle.ms=-1", "expected an integer from 1 to 9223372036854775807, found '-1'"),
    ("authorizerd.decision.http=http://0.0.0.0:8181", f"0.0.0.0 {NOT_LOOPBACK}"),
    ("authorizerd.decision.http=http://:8181", f"every interface {NOT_LOOPBACK}"),
    ("authorizerd.decision.stream=tcp://0.0.0.0:8183", f"0.0.0.0 {NOT_LOOPBACK}"),
    ("authorizerd.admin.http=http://0.0.0.0:8182",
     "0.0.0.0 is not a loopback address (127.0.0.0/8, ::1,"
     " localhost): use https://, a loopback address, or authorizerd.metrics.http for metrics"
     " and health"),
    ("authorizerd.tokens.file=", NO_PATH),
    ("authorizerd.admin.http=ftp://127.0.0.1:8182", "invalid scheme 'ftp': expected http or https"),
    ("authorizerd.admin.http=http://127.0.0.1:8181",
     "already used by authorizerd.decision.http: choose another port"),
    *(
        (
            f"authorizerd.metrics.http=http://127.0.0.1:{port}",
            f"already used by {key}: choose another port",
        )
        for port, key in ((8181, "authorizerd.decision.http"), (8182, "authorizerd.admin.http"))
    ),
    ("authorizerd.metrics.http=0.0.0.0:9182",
     "invalid address '0.0.0.0:9182': expected http://host:port or https://host:port"
     " (an IPv6 host in brackets)"),
    *(
        (
            f"authorizerd.http.request.max.bytes={number}",
            f"expected an integer from 1024 to 16777216, found '{number}'",
        )
        for number in (1023, 16777217)
    ),
    ("authorizerd.http.header.timeout.ms=0", "expected an integer from 1 to 3600000, found '0'"),
    ("authorizerd.http.drain.timeout.ms=3600001",
     "expected an integer from 0 to 3600000, found '3600001'"),
    ("authorizerd.audit.log=", NO_PATH),
    ("authorizerd.log.format=xml", "expected one of text, json, found 'xml'"),
    ("authorizerd.audit.format=xml", "expected one of kafka, json, found 'xml'"),
    ("authorizerd.audit.level=WARN", "expected one of INFO, DEBUG, TRACE, found 'WARN'"),
    ("authorizerd.audit.queue.max=0", "expected an integer from 1 to 1000000, found '0'"),
    ("authorizerd.authzen.subject.types=user", "invalid entry 'user': expected type=PrincipalType"),
    ("authorizerd.authzen.resource.types=topic=QUEUE",
     "invalid resource type 'QUEUE': expected one of TOPIC, GROUP, CLUSTER,"
     " TRANSACTIONAL_ID, DELEGATION_TOKEN, USER"),
    ("authorizerd.audit.formats=json", "unknown key; did you mean authorizerd.audit.format?"),
    ("authorizerd.decison.http=http://127.0.0.1:1",
     "unknown key; did you mean authorizerd.decision.http?"),
    ("authorizerd.quota=2", UNKNOWN_KEY),
    ("authorizerd.workers=0", "expected an integer from 1 to 64, found '0'"),
    ("authorizerd.=2", UNKNOWN_KEY),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), BAD_LINES, ids=[line for line, _ in BAD_LINES])
def test_error_for_an_invalid_value_names_its_place_and_key(line: str, expected: str) -> None:
    key = line.partition("=")[0]
    assert refuse(f"{BASE}{line}\n") == f"server.properties:3: {key}: {expected}"
    assert refuse(BASE, overrides=(line,)) == f"--override: {key}: {expected}"


def test_error_for_a_malformed_line_names_its_place() -> None:
    assert refuse(f"{BASE}a=\\uD") == (
        "server.properties:3: malformed escape: expected four hexadecimal digits after \\u"
    )
    assert refuse(BASE, overrides=("node.id",)) == (
        "--override: expected KEY=VALUE, found a text without '='"
        " (not shown, since it may hold a secret)"
    )


def test_error_for_a_missing_key_names_the_file_and_the_key() -> None:
    assert (
        refuse("log.dirs=/a")
        == "server.properties: node.id: required, and has no default: add a line node.id=VALUE"
    )
    assert refuse("node.id=1") == (
        "server.properties: log.dirs: required unless metadata.log.dir is set: add a line"
        " log.dirs=DIRECTORY"
    )


def test_last_override_wins() -> None:
    """An override replaces even an invalid line of the file."""
    assert configure("node.id=x", overrides=("node.id=2", "node.id = 3 ")).node_id == 3
    assert configure("super.users=User:a", overrides=("super.users=",)) == (configure())
    assert configure(overrides=("some.kafka.key=1",)).ignored_keys == ("some.kafka.key",)


def test_empty_quorum_key_counts_as_unset() -> None:
    """As in Kafka. The voters of a combined node include the node itself; they are ignored."""
    configuration = configure(
        "controller.quorum.bootstrap.servers=", "controller.quorum.voters=1@h:1"
    )
    assert configuration.ignored_keys == ("controller.quorum.voters",)


def test_reload_changes_only_the_reloadable_part() -> None:
    """Comparing the other fields shows which keys need a restart."""
    old = configure()
    new = configure("authorizerd.log.level=DEBUG", "authorizerd.audit.level=TRACE")
    assert new != old
    assert new.with_reloadable(old) == old


@given(
    st.lists(
        st.tuples(
            st.sampled_from([line.partition("=")[0] for line, _ in BAD_LINES]),
            st.text(alphabet="aA1:/[].,;=- \\\n", max_size=12),
        ),
        max_size=3,
    )
)
def test_any_values_give_a_configuration_or_one_line_error(settings: list[tuple[str, str]]) -> None:
    error = ""
    try:
        configure(*(f"{key}={value}" for key, value in settings))
    except ConfigurationError as refusal:
        error = str(refusal)
    assert len(error.splitlines()) <= 1


def test_set_keys_are_kept_as_text_for_the_authorizer() -> None:
    """They may be passwords, so ``repr`` does not show them."""
    configuration = configure("authorizer.class.name=mine.Authorizer\nmine.key = a b \n")
    assert configuration.authorizer_class_name == "mine.Authorizer"
    assert configuration.file_values["mine.key"] == "a b"
    assert "super.users" not in configuration.file_values
    assert configuration.ignored_keys == ()
    assert "mine.key" not in repr(configuration)


def test_file_values_give_a_worker_the_same_configuration() -> None:
    first = parse(
        f"{BASE}unknown=x\nmax.connections=7\n", source=SOURCE, overrides=["authorizerd.workers=3"]
    )
    second = parse_values(first.file_values, source="elsewhere")
    assert (second, second.file_values) == (first, first.file_values)


def test_audit_rules_combine_their_keys() -> None:
    rules = configure(
        "authorizerd.audit.required=true", "authorizerd.audit.sample.allowed=1/4",
        "authorizerd.audit.principals.include=User:a*",
        "authorizerd.audit.principals.exclude=User:ab",
        "authorizerd.audit.resources.include=TOPIC:*",
        "authorizerd.audit.resources.exclude=TOPIC:t*", "authorizerd.audit.filter.denied=true",
    ).audit_rules  # fmt: skip
    assert (rules.is_required, rules.allowed_rate, rules.filter.filters_denied) == (
        True,
        0.25,
        True,
    )
    assert rules.filter.principals_included == name_patterns(["User:a*"])
    assert rules.filter.principals_excluded == name_patterns(["User:ab"])
    assert rules.filter.resources_included.match(ResourceType.TOPIC, "x")
    assert not rules.filter.resources_included.match(ResourceType.GROUP, "x")
    assert rules.filter.resources_excluded.match(ResourceType.TOPIC, "tx")
    assert not rules.filter.resources_excluded.match(ResourceType.TOPIC, "x")


def test_single_addresses_and_listeners_may_have_their_own_limits() -> None:
    """Addresses may be written in any form."""
    configuration = configure(
        "max.connections.per.ip.overrides= 10.0.0.1:5 ,::1:7,[fe80::2]:9,::ffff:10.0.0.3:1",
        "listener.name.plaintext.max.connections=30",
        "max.connection.creation.rate=100",
        "listener.name.plaintext.max.connection.creation.rate=20",
    )
    assert configuration.max_connections_per_ip_overrides == {
        "10.0.0.1": 5,
        "0:0:0:0:0:0:0:1": 7,
        "fe80:0:0:0:0:0:0:2": 9,
        "10.0.0.3": 1,
    }
    assert configuration.listener_max_connections == {"PLAINTEXT": 30}
    assert configuration.max_connection_creation_rate == 100
    assert configuration.listener_creation_rates == {"PLAINTEXT": 20}
    assert configuration.ignored_keys == ()
