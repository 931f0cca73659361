"""The value of a key that is in force, and plans for changes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.alterations import (
    Alteration,
    AlterationError,
    AlterOperation,
    Changes,
    InvalidConfigError,
    check_alterations,
    plan_changes,
    want_incremental,
    want_replacement,
)
from authorizerd.config.configuration import parse_values
from authorizerd.config.dynamic import (
    SUPER_USER_ONLY_KEYS,
    ConfigSource,
    ConfigType,
    Layers,
    check_value,
    get_type,
    is_secret,
    may_change,
    normalize_value,
    select_plugged_keys,
    split_valid,
)
from authorizerd.config.keys import KEYS
from authorizerd.config.tls_keys import is_store_key, ssl_keys
from authorizerd.config.values import trim

FILE = {"node.id": "1", "max.connections": "10", "super.users": "User:file"}
KEY = "max.connections"
SSL_NAMES = [key.name for key in ssl_keys()]


def test_value_for_this_node_beats_that_for_all_nodes_and_both_beat_the_file() -> None:
    """The others are its synonyms, in order of precedence."""
    layers = Layers(file=FILE, everywhere={KEY: "20"}, node={KEY: "30"})
    assert layers.look_up(KEY) == [
        ("30", ConfigSource.DYNAMIC_BROKER),
        ("20", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("10", ConfigSource.STATIC_BROKER),
        ("1024", ConfigSource.DEFAULT),
    ]
    assert layers.merge()[KEY] == "30"
    assert Layers(file=FILE, everywhere={KEY: "20"}).merge()[KEY] == "20"
    assert Layers(file=FILE).merge()[KEY] == "10"
    assert Layers(file={}).merge()[KEY] == "1024"


@pytest.mark.parametrize("key", sorted(SUPER_USER_ONLY_KEYS))
def test_log_does_not_change_guarded_keys(key: str) -> None:
    """Only values set since the file was read beat the file."""
    layers = Layers(file={key: "file"}, everywhere={key: "log"}, node={key: "log"})
    assert layers.merge()[key] == "file"
    layers = Layers(file={key: "file"}, node={key: "log"}, since_reload={key: "wire"})
    assert layers.merge()[key] == "wire"
    assert [each.source for each in layers.look_up(key)][:2] == [
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.STATIC_BROKER,
    ]


def test_fixed_key_comes_only_from_the_file() -> None:
    """A log may contain another node id, for example a broker's."""
    layers = Layers(file=FILE, everywhere={"node.id": "7"}, node={"node.id": "8"})
    assert layers.merge()["node.id"] == "1"
    assert not may_change("node.id", frozenset())
    assert may_change(KEY, frozenset())


def test_key_of_a_plug_in_changes_only_if_the_plug_in_lists_it() -> None:
    """Each reading of the file resets it, whatever the log contains."""
    assert not may_change("mine", frozenset({"another"}))
    assert may_change("mine", frozenset({"mine"}))
    layers = Layers(file={"mine": "a"}, node={"mine": "b"}, everywhere={"mine": "c"})
    assert layers.merge()["mine"] == "a"
    plugged = replace(layers, plugged=frozenset({"mine"}))
    assert plugged.merge()["mine"] == "a"
    assert replace(plugged, since_reload={"mine": "d"}).merge()["mine"] == "d"


def test_plug_in_cannot_claim_keys_of_kafka_or_with_our_prefix() -> None:
    names = {"mine", "node.id", KEY, "super.users", "authorizerd.tokens.file", "authorizerd.new"}
    assert select_plugged_keys(names) == {"mine"}


def test_reloadable_keys_of_audit_and_callers_are_guarded() -> None:
    """Future ones are as well."""
    assert {name for name in SUPER_USER_ONLY_KEYS if name.startswith("authorizerd.")} == {
        "authorizerd.audit.level", "authorizerd.audit.required", "authorizerd.audit.sample.allowed",
        "authorizerd.audit.principals.include", "authorizerd.audit.principals.exclude",
        "authorizerd.audit.resources.include", "authorizerd.audit.resources.exclude",
        "authorizerd.audit.filter.denied", "authorizerd.callers.ask", "authorizerd.callers.search",
        "authorizerd.callers.read",
    }  # fmt: skip


def test_invalid_values_are_separated_from_valid_ones() -> None:
    sound, faults = split_valid({KEY: "many", "connections.max.idle.ms": "50000", "mine": "x"})
    assert sound == {"connections.max.idle.ms": "50000", "mine": "x"}
    assert faults == ["max.connections: expected an integer from 1 to 2147483647, found 'many'"]
    (fault,) = split_valid({KEY: "1"})[1]
    assert fault.startswith("max.connections: 1 is below 64, the minimum that a client may set")


def test_values_in_force_give_the_reloadable_settings() -> None:
    texts = Layers(
        file={"listener.name.plaintext.max.connection.creation.rate": "7"},
        node={
            "max.connections": "1", "max.connection.creation.rate": "6",
            "connections.max.idle.ms": "2", "authorizerd.http.header.timeout.ms": "3",
            "authorizerd.http.drain.timeout.ms": "4", "authorizerd.update.timeout.ms": "500",
            "authorizerd.log.level": "ERROR",
        },
        since_reload={"authorizerd.audit.level": "DEBUG"},
    ).merge()  # fmt: skip
    made = parse_values({"node.id": "1", "log.dirs": "/log"}, source="test").reload(texts)
    assert (
        made.max_connections, made.connections_max_idle_ms, made.http_header_timeout_ms,
        made.http_drain_timeout_ms, made.update_timeout_ms, made.max_connection_creation_rate,
    ) == (1, 2, 3, 4, 500, 6)  # fmt: skip
    assert made.listener_creation_rates == {"PLAINTEXT": 7}
    assert (made.log_level, made.audit_level.name) == ("ERROR", "DEBUG")


def test_keys_have_kafkas_types() -> None:
    assert {get_type(key.name) for key in KEYS} == {
        ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.LIST,
        ConfigType.PASSWORD,
    }  # fmt: skip
    assert get_type("allow.everyone.if.no.acl.found") is ConfigType.BOOLEAN
    assert get_type("max.connections") is ConfigType.INT
    assert get_type("connections.max.idle.ms") is ConfigType.LONG
    assert get_type("log.dirs") is ConfigType.LIST
    assert get_type("listener.name.x.ssl.keystore.location") is ConfigType.STRING
    assert get_type("listener.name.x.ssl.enabled.protocols") is ConfigType.LIST
    assert get_type("somebody.else.s.key") is ConfigType.UNKNOWN


def test_passwords_are_secret() -> None:
    assert is_secret("listener.name.sasl.plain.sasl.jaas.config")
    assert is_secret("sasl.jaas.config")
    assert is_secret("authorizerd.source.sasl.jaas.config")
    assert get_type("authorizerd.source.sasl.jaas.config") is ConfigType.PASSWORD
    assert is_secret("somebody.else.s.key")
    assert is_secret("listener.name.x.ssl.mine")
    assert not is_secret("super.users")


@pytest.mark.parametrize(
    "prefix", ["", "authorizerd.http.", "authorizerd.source.", "listener.name.a.ssl.b."]
)
def test_passwords_keys_and_chains_of_stores_are_secret(prefix: str) -> None:
    secret = {name for name in SSL_NAMES if is_secret(prefix + name)}
    assert secret == {
        "ssl.keystore.password", "ssl.keystore.certificate.chain", "ssl.keystore.key",
        "ssl.key.password", "ssl.truststore.password", "ssl.truststore.certificates",
    }  # fmt: skip
    assert {name for name in SSL_NAMES if get_type(prefix + name) is ConfigType.PASSWORD} == secret


def test_keys_of_stores_are_those_that_kafka_reloads() -> None:
    assert {name for name in SSL_NAMES if not is_store_key(name)} == {
        "ssl.client.auth", "ssl.principal.mapping.rules", "ssl.enabled.protocols",
        "ssl.cipher.suites", "ssl.allow.dn.changes", "ssl.allow.san.changes",
    }  # fmt: skip


@pytest.mark.parametrize("start", ["", "listener.name.", "authorizerd.http."])
def test_long_name_of_a_client_takes_linear_time(start: str) -> None:
    """A regular expression would take half an hour for the second name."""
    assert get_type(f"{start}{'x' * 800_000}.ssl.key.password") is (
        ConfigType.PASSWORD if start == "listener.name." else ConfigType.UNKNOWN
    )
    assert get_type(f"{start}{'ssl.' * 200_000}!") is ConfigType.UNKNOWN


def test_numbers_are_normalized_as_in_kafka() -> None:
    assert normalize_value("max.connections", " 05000 ") == "5000"
    assert normalize_value("allow.everyone.if.no.acl.found", "TRUE") == "true"
    assert normalize_value("super.users", " User:a") == " User:a"
    assert normalize_value("somebody.else.s.key", " 05") == " 05"


def test_blanks_around_a_value_are_ignored() -> None:
    check_value("max.connections", " 500 ")
    layers = Layers(file={}, node={"max.connections": "\t500 "})
    assert layers.merge()["max.connections"] == "500"
    assert layers.look_up("max.connections")[0].value == "\t500 "


LAYER = st.dictionaries(st.sampled_from([KEY, "super.users", "node.id", "mine"]), st.text())


@given(LAYER, LAYER, LAYER, LAYER)
def test_value_in_force_is_the_first_synonym(
    file: dict[str, str], everywhere: dict[str, str], node: dict[str, str], since: dict[str, str]
) -> None:
    layers = Layers(file=file, everywhere=everywhere, node=node, since_reload=since)
    in_force = layers.merge()
    for name in layers.names():
        values = layers.look_up(name)
        assert in_force.get(name) == (trim(values[0].value) if values else None)
        assert values == sorted(values, key=lambda each: each.source)


SET, DELETE = AlterOperation.SET, AlterOperation.DELETE
PLUGGED = frozenset({"mine"})


def plan_incremental(before: Mapping[str, str], alterations: Sequence[Alteration]) -> Changes:
    return plan_changes(before, want_incremental(alterations, PLUGGED))


def plan_replacement(before: Mapping[str, str], configs: Mapping[str, str]) -> Changes:
    alterations = [Alteration(name, SET, value) for name, value in configs.items()]
    return plan_changes(before, want_replacement(alterations, PLUGGED))


def test_keys_are_set_and_removed() -> None:
    """Removing a key that is not set changes nothing."""
    alterations = [
        Alteration(KEY, SET, "500"),
        Alteration("mine", SET, "x"),
        Alteration("connections.max.idle.ms", DELETE, None),
        Alteration("authorizerd.log.level", DELETE, None),
    ]
    before = {"connections.max.idle.ms": "7", KEY: "3"}
    assert plan_incremental(before, alterations) == {
        KEY: "500",
        "mine": "x",
        "connections.max.idle.ms": None,
    }
    assert before == {"connections.max.idle.ms": "7", KEY: "3"}


def test_replacement_removes_unnamed_keys() -> None:
    assert plan_replacement({KEY: "3", "mine": "x"}, {KEY: "400"}) == {KEY: "400", "mine": None}
    assert plan_replacement({}, {}) == {}


BAD = [
    (Alteration(KEY, SET, "many"),
     "Invalid value many for configuration max.connections: expected"),
    (Alteration(KEY, SET, "0"), "Invalid value 0 for configuration max.connections: expected an"),
    (Alteration("node.id", SET, "3"), "Cannot update these configs dynamically: [node.id]"),
    (Alteration("yours", SET, "3"), "Unknown config name: yours. It is not a key of the daemon"),
    (Alteration("authorizerd.mine", SET, "3"), "Unknown config name: authorizerd.mine. It"),
    (Alteration(KEY, 9, "3"), "Unknown operations type 9"),
    (Alteration("super.users", SET, "bob"),
     "Invalid value bob for configuration super.users: invalid"),
]  # fmt: skip


@pytest.mark.parametrize(("alteration", "text"), BAD)
def test_invalid_alteration_is_rejected_with_kafkas_text(alteration: Alteration, text: str) -> None:
    """Valid alterations of the same request are not made either."""
    with pytest.raises(AlterationError) as refusal:
        plan_incremental({}, [Alteration("connections.max.idle.ms", SET, "50000"), alteration])
    assert str(refusal.value).startswith(text)
    if alteration.operation == SET:
        with pytest.raises(AlterationError):
            plan_replacement({}, {alteration.name: alteration.value or ""})


@pytest.mark.parametrize("operation", [AlterOperation.APPEND, AlterOperation.SUBTRACT])
def test_append_and_subtract_are_rejected(operation: AlterOperation) -> None:
    """No reloadable key is a list."""
    with pytest.raises(InvalidConfigError) as refusal:
        plan_incremental({}, [Alteration(KEY, operation, "5")])
    what = operation.name.lower()
    assert str(refusal.value) == f"Config value {what} is not allowed for config key: {KEY}"
    unknown = [Alteration(KEY, operation, "5"), Alteration("node.id", 9, "5")]
    with pytest.raises(AlterationError, match=r"^Unknown operations type 9$"):  # as Kafka does
        plan_incremental({}, unknown)


def check(*alterations: Alteration) -> None:
    check_alterations(alterations)


def test_contradictory_request_is_rejected() -> None:
    with pytest.raises(AlterationError, match=r"^Error due to duplicate config keys$"):
        check(Alteration(KEY, SET, "1"), Alteration(KEY, DELETE, None))
    with pytest.raises(AlterationError, match=rf"^Null value not supported for : {KEY}, mine$"):
        check(Alteration(KEY, SET, None), Alteration("mine", SET, None))
    check(Alteration(KEY, DELETE, None))


LIMITS = [(key.name, key.wire_minimum) for key in KEYS if key.wire_minimum is not None]


@pytest.mark.parametrize(("name", "minimum"), LIMITS)
def test_client_cannot_set_a_limit_that_locks_everyone_out(name: str, minimum: int) -> None:
    """The file can: its owner can undo it without logging in."""
    assert plan_incremental({}, [Alteration(name, SET, str(minimum))]) == {name: str(minimum)}
    with pytest.raises(AlterationError, match=f"{minimum - 1} is below {minimum}, the minimum"):
        plan_incremental({}, [Alteration(name, SET, str(minimum - 1))])


def test_limits_that_could_lock_everyone_out_have_a_minimum() -> None:
    assert {name for name, _ in LIMITS} == {
        "max.connections", "connections.max.idle.ms", "authorizerd.http.header.timeout.ms",
        "authorizerd.login.timeout.ms", "max.connections.per.ip", "max.connection.creation.rate",
    }  # fmt: skip


def test_fixed_key_cannot_be_removed() -> None:
    """Another writer may have put it into the log. Unknown keys can be removed."""
    before = {"node.id": "2", "theirs": "x"}
    with pytest.raises(AlterationError, match=r"Cannot update these configs .*: \[node\.id\]"):
        plan_replacement(before, {})
    assert plan_incremental(before, [Alteration("theirs", DELETE, None)]) == {"theirs": None}


def test_error_names_only_some_of_many_keys() -> None:
    alterations = [Alteration(f"key-{number}", SET, "x") for number in range(10_000)]
    check_alterations(alterations)
    with pytest.raises(InvalidConfigError) as refusal:
        want_incremental(alterations, PLUGGED)
    assert len(str(refusal.value)) < 2000
