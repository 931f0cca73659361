"""All faults of a configuration at once, and hints about settings that are probably not meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.configuration import parse, parse_values
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.hints import find_exposed_tokens, find_hints, find_repeats
from authorizerd.config.keys import KEYS

BASE = "node.id=1\nlog.dirs=/var/lib/kafka\n"  # what a row adds begins on line 3
NAMES = [*(key.name for key in KEYS), "authorizerd.unknown", "broker.rack"]
VALUES = ["", "1", "-1", "x", "true", "PLAINTEXT://:9092", "http://127.0.0.1:1", "a=b;c", "\\u12"]
SASL = "listeners=A://127.0.0.1:1,B://127.0.0.1:2\n"


def refuse(text: str, *overrides: str) -> list[ConfigurationError]:
    with pytest.raises(ConfigurationError) as refused:
        parse(text, source="f", overrides=overrides)
    return refused.value.faults


def faults(text: str, *overrides: str) -> list[str]:
    return [str(fault) for fault in refuse(text, *overrides)]


def test_error_counts_the_faults_that_it_does_not_name() -> None:
    text = "queued.max.requests=0\nnode.id=x\nlog.dirs="
    with pytest.raises(ConfigurationError, match=r"^f:1: queued\.max.*, found '0' \(and 2 more\)$"):
        parse(text, source="f")


def test_every_invalid_key_is_named_in_the_order_of_the_file() -> None:
    """Overrides come last. What is missing may be in an override that cannot be read."""
    text = "queued.max.requests=x\nauthorizerd.worker=2\nbroker.rack=a\nlog.dirs=\n"
    assert faults(text, "authorizerd.workers=none", "node.id:1") == [
        "f:1: queued.max.requests: expected an integer from 1 to 1000000, found 'x'",
        "f:2: authorizerd.worker: unknown key; did you mean authorizerd.workers?",
        "f:4: log.dirs: expected at least one entry, found an empty value",
        "--override: authorizerd.workers: expected an integer from 1 to 64, found 'none'",
        "--override: expected KEY=VALUE, found a text without '='"
        " (not shown, since it may hold a secret)",
    ]


@pytest.mark.parametrize(("text", "keys"), [
    # Rules about several keys, next to each other and to an invalid key
    ("log.dirs=/a\nearly.start.listeners=OTHER,MORE\nauthorizerd.audit.mask.host=hash\n"
     "authorizerd.audit.mask.principal=hash\nqueued.max.requests=x\n",
     ["2: early.start.listeners", "3: authorizerd.audit.mask.host",
      "4: authorizerd.audit.mask.principal", "5: queued.max.requests", "None: node.id"]),
    (
        BASE + "authorizerd.decision.http=http://h:1\nauthorizerd.decision.stream=tcp://h:2\n"
        "authorizerd.admin.http=http://h:1\n",
        ["3: authorizerd.decision.http", "4: authorizerd.decision.stream",
         "5: authorizerd.admin.http"],
    ),
    # Each listener by itself
    (
        BASE + SASL + "listener.security.protocol.map=A:SASL_PLAINTEXT,B:SSL\n"
        "listener.name.a.max.connections=x\nlistener.name.b.max.connections=x\n",
        ["5: listener.name.a.max.connections", "6: listener.name.b.max.connections",
         "None: listener.name.a.plain.sasl.jaas.config", "None: ssl.keystore.location"],
    ),
    (BASE + SASL + "listener.security.protocol.map=A:SASL_PLAINTEXT,B:SASL_PLAINTEXT\n",
     ["None: listener.name.a.plain.sasl.jaas.config",
      "None: listener.name.b.plain.sasl.jaas.config"]),
    # Following a cluster
    (BASE + "authorizerd.writes=as-self\nauthorizerd.source.client.id=x\n",
     ["3: authorizerd.writes", "4: authorizerd.source.client.id"]),
    (
        BASE + "authorizerd.source=brokers\nauthorizerd.writes.forward.principals=User:a\n"
        "authorizerd.source.sasl.mechanism=PLAIN\nauthorizerd.source.ssl.key.password=x\n",
        ["4: authorizerd.writes.forward.principals", "5: authorizerd.source.sasl.mechanism",
         "6: authorizerd.source.ssl.key.password",
         "None: authorizerd.source.bootstrap.servers"],
    ),
    (
        BASE + "authorizerd.source=quorum\nauthorizerd.source.client.id=x\n"
        "authorizerd.writes=forward\ncontroller.quorum.voters=1@h:1\n",
        ["1: node.id", "4: authorizerd.source.client.id", "None: controller.listener.names",
         "None: authorizerd.writes.forward.principals"],
    ),
])  # fmt: skip
def test_faults_of_rules_about_several_keys_are_named_together(text: str, keys: list[str]) -> None:
    assert [f"{fault.line}: {fault.key}" for fault in refuse(text)] == keys


@pytest.mark.parametrize("text", [
    # an unreadable value, and rules that would use it
    BASE + "listeners=nonsense\nearly.start.listeners=OTHER\nadvertised.listeners=OTHER://h:1\n",
    BASE + "authorizerd.source.ssl.enabled.protocols=\n",
    BASE + "authorizerd.source=nothing\nauthorizerd.writes=as-self\n",
    BASE + "controller.quorum.voters=x\nauthorizerd.writes=as-self\n",
    BASE + "authorizerd.tokens.file=\nauthorizerd.decision.http=http://h:1\n",
    "node.id=x\nlog.dirs=/a\n",
    "node.id=1\nlog.dirs=\n",
    # a rule's result, and rules that would use that
    BASE + "listeners=SASL://h:1\nlistener.security.protocol.map=A:SSL\n",
    # a key of ours that is mistyped, and rules that would miss it
    BASE + "authorizerd.token.file=/t\nauthorizerd.decision.http=http://h:1\n",
    BASE + "authorizerd.soruce=quorum\nauthorizerd.writes=as-self\n",
    # a text that cannot be read
    "a=\\u12\nqueued.max.requests=x\n",
])  # fmt: skip
def test_what_depends_on_a_fault_is_no_fault(text: str) -> None:
    assert len(faults(text)) == 1


def test_missing_node_id_is_a_fault_of_an_own_log() -> None:
    assert faults("log.dirs=/a") == [
        "f: node.id: required, and has no default: add a line node.id=VALUE"
    ]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=5))
def test_each_fault_is_named_once_and_has_a_reason(lines: list[tuple[str, str]]) -> None:
    text = BASE + "".join(f"{name}={value}\n" for name, value in lines)
    try:
        parse(text, source="f")
    except ConfigurationError as refused:
        found = refused.faults
    else:
        return
    named = [(fault.line, fault.key) for fault in found]
    assert len(named) == len(set(named))
    assert all(fault.reason for fault in found)


@pytest.mark.parametrize(("line", "key", "text"), [
    (12, "listeners", "server.properties:12: listeners: is wrong"),
    (None, "log.dirs", "server.properties: log.dirs: is wrong"),
    (3, "", "server.properties:3: is wrong"),
])  # fmt: skip
def test_error_names_place_key_and_reason(line: int | None, key: str, text: str) -> None:
    error = ConfigurationError("server.properties", line, key, "is wrong")
    assert str(error) == text
    assert (error.source, error.line, error.key, error.reason) == (
        "server.properties",
        line,
        key,
        "is wrong",
    )


def test_error_is_one_line_whatever_the_file_contains() -> None:
    error = ConfigurationError("s", 1, "a\nb", "é\x00\u2028\udcff is wrong")
    assert str(error) == r"s:1: a\nb: é\x00\u2028\udcff is wrong"


CLIENT_AUTH = "authorizerd.http.ssl.client.auth"
KEYSTORE = {"authorizerd.http.ssl.keystore.location": "/k.pem"}
STAR = "* is an ordinary character here; only User:* in an ACL means everyone"


@pytest.mark.parametrize(("text", "hints"), [
    ("", []),
    ("User:alice;User:bob", []),
    ("User:CN=a,OU=b,O=c; User:d", []),
    ("alice", []),  # a fault, not a hint
    ("User:alice,User:bob",
     ["'User:alice,User:bob' is one principal: separate entries by semicolons"]),
    ("User:alice, user:bob",
     ["'User:alice, user:bob' is one principal: separate entries by semicolons"]),
    ("Service:a, Service:b",
     ["'Service:a, Service:b' is one principal: separate entries by semicolons"]),
    ("user:alice",
     ["principal 'user:alice': Kafka's clients have the type User, in this letter case"]),
    ("User:/C=DE/CN=a",
     ["principal 'User:/C=DE/CN=a': Java writes a certificate's name as 'CN=a,C=DE',"
      " unless ssl.principal.mapping.rules changes it"]),
    ("User: alice", ["principal 'User: alice': blanks around the name are a part of it"]),
    ("User:*", [f"principal 'User:*': {STAR}"]),
    ("User:b;User:a*;User:*", [f"principal 'User:{each}': {STAR}" for each in ("*", "a*")]),
])  # fmt: skip
@pytest.mark.parametrize("key", ["super.users", "authorizerd.callers.ask"])
def test_list_of_principals(key: str, text: str, hints: list[str]) -> None:
    texts = {key: text, "authorizerd.tokens.file": "/tokens"}
    assert list(find_hints(texts)) == [f"{key}: {each}" for each in hints]


@pytest.mark.parametrize("prefix", ["", "listener.name.tls."])
def test_mapped_name_may_have_any_form(prefix: str) -> None:
    texts = {"super.users": "User:cn=a", f"{prefix}ssl.principal.mapping.rules": "RULE:(.*)/$1/L"}
    assert list(find_hints(texts)) == []


@pytest.mark.parametrize(("text", "is_hinted"), [
    ("${PW}", True),
    ("a ${PW} ${b}", True),
    ("${env:PW", True),
    ("${env:a}${", True),
    ("${env:PW}", False),  # resolved, or an error
    ("$PW {a}", False),
    ("", False),
])  # fmt: skip
@pytest.mark.parametrize(
    "key", ["listener.name.a.plain.sasl.jaas.config", "authorizerd.http.ssl.key.password"]
)
def test_text_that_looks_like_a_placeholder(key: str, text: str, is_hinted: bool) -> None:
    """The value is a secret, so the hint does not show it."""
    hints = list(find_hints({key: text, "log.dirs": text}))
    assert [each.split(":")[0] for each in hints] == [key] * is_hinted
    assert all("PW" not in each for each in hints)


@pytest.mark.parametrize(("text", "is_hinted"), [
    ("User:jürgen", False),
    ("User:jürgen".encode().decode("iso-8859-1"), True),
    ("User:Ã", False),
    ("User:€", False),
    ("User:alice", False),
])  # fmt: skip
def test_utf8_that_was_read_as_iso_8859_1(text: str, is_hinted: bool) -> None:
    """The value may be a secret, so the hint does not show it."""
    hints = [each for each in find_hints({"super.users": text}) if "looks like UTF-8" in each]
    assert [each.split(":")[0] for each in hints] == ["super.users"] * is_hinted
    assert all("User:j" not in each for each in hints)


def test_key_that_is_set_twice() -> None:
    """An override of a key is intended."""
    text = "node.id=1\nlog.dirs=/a\nlog.dirs=/b\nlog.dirs=/c"
    again = parse(text, source="f", overrides=["node.id=2"])
    assert [*find_repeats(again)] == ["log.dirs: set in lines 3 and 4: as in Kafka, line 4 counts"]
    assert not [*find_repeats(parse(text, source="f", overrides=["log.dirs=/d"]))]


@pytest.mark.parametrize(("texts", "is_hinted"), [
    ({"authorizerd.callers.read": "User:a"}, True),
    ({"authorizerd.callers.read": " "}, False),
    ({"authorizerd.callers.read": "User:a", "authorizerd.tokens.file": "/t"}, False),
    ({"authorizerd.callers.ask": "User:a", f"{CLIENT_AUTH}": "requested"}, False),
    ({"authorizerd.callers.ask": "User:a", f"{CLIENT_AUTH}": "none"}, True),
    ({"super.users": "User:a"}, False),
])  # fmt: skip
def test_rights_without_credentials(texts: dict[str, str], is_hinted: bool) -> None:
    """Nobody could have them, and everybody could ask."""
    assert any("does not know who calls" in each for each in find_hints(texts)) is is_hinted


@pytest.mark.parametrize(("settings", "keys"), [
    ({}, []),
    ({"authorizerd.decision.http": "http://0.0.0.0:1"}, ["authorizerd.decision.http"]),
    ({"authorizerd.decision.stream": "tcp://10.0.0.1:1"}, ["authorizerd.decision.stream"]),
    ({"authorizerd.decision.stream": "unix:/run/a.sock"}, []),
    ({"authorizerd.decision.http": "https://0.0.0.0:1", **KEYSTORE}, []),
])  # fmt: skip
def test_tokens_in_the_clear(settings: dict[str, str], keys: list[str]) -> None:
    values = {"node.id": "1", "log.dirs": "/log", "authorizerd.tokens.file": "/tokens", **settings}
    found = list(find_exposed_tokens(parse_values(values, source="test")))
    assert [
        each.partition(": other machines can reach it, and tokens")[0] for each in found
    ] == keys


def test_other_keys_have_no_hints() -> None:
    assert list(find_hints({"listeners": "user:*,User:a"})) == []
