"""Hints about settings that are valid, but probably not meant."""

from __future__ import annotations

import pytest

from authorizerd.config.configuration import parse_values
from authorizerd.config.hints import find_exposed_tokens, find_hints

CLIENT_AUTH = "authorizerd.http.ssl.client.auth"
KEYSTORE = {"authorizerd.http.ssl.keystore.location": "/k.pem"}
STAR = "* is an ordinary character here; only User:* in an ACL means everyone"


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("", []),
        ("User:alice;User:bob", []),
        ("User:CN=a,OU=b,O=c; User:d", []),
        ("alice", []),  # a fault, not a hint
        (
            "User:alice,User:bob",
            ["'User:alice,User:bob' is one principal: separate entries by semicolons"],
        ),
        (
            "User:alice, user:bob",
            ["'User:alice, user:bob' is one principal: separate entries by semicolons"],
        ),
        (
            "Service:a, Service:b",
            ["'Service:a, Service:b' is one principal: separate entries by semicolons"],
        ),
        (
            "user:alice",
            ["principal 'user:alice': Kafka's clients have the type User, in this letter case"],
        ),
        (
            "User:/C=DE/CN=a",
            [
                "principal 'User:/C=DE/CN=a': Java writes a certificate's name as 'CN=a,C=DE',"
                " unless ssl.principal.mapping.rules changes it"
            ],
        ),
        ("User: alice", ["principal 'User: alice': blanks around the name are a part of it"]),
        ("User:*", [f"principal 'User:*': {STAR}"]),
        ("User:b;User:a*;User:*", [f"principal 'User:{each}': {STAR}" for each in ("*", "a*")]),
    ],
)
@pytest.mark.parametrize("key", ["super.users", "authorizerd.callers.ask"])
def test_list_of_principals(key: str, text: str, hints: list[str]) -> None:
    texts = {key: text, "authorizerd.tokens.file": "/tokens"}
    assert list(find_hints(texts)) == [f"{key}: {each}" for each in hints]


@pytest.mark.parametrize("prefix", ["", "listener.name.tls."])
def test_mapped_name_may_have_any_form(prefix: str) -> None:
    texts = {"super.users": "User:cn=a", f"{prefix}ssl.principal.mapping.rules": "RULE:(.*)/$1/L"}
    assert list(find_hints(texts)) == []


@pytest.mark.parametrize(
    ("text", "is_hinted"),
    [
        ("${PW}", True),
        ("a ${PW} ${b}", True),
        ("${env:PW", True),
        ("${env:a}${", True),
        ("${env:PW}", False),  # resolved, or an error
        ("$PW {a}", False),
        ("", False),
    ],
)
@pytest.mark.parametrize(
    "key", ["listener.name.a.plain.sasl.jaas.config", "authorizerd.http.ssl.key.password"]
)
def test_text_that_looks_like_a_placeholder(key: str, text: str, is_hinted: bool) -> None:
    """The value is a secret, so the hint does not show it."""
    hints = list(find_hints({key: text, "log.dirs": text}))
    assert [each.split(":")[0] for each in hints] == [key] * is_hinted
    assert all("PW" not in each for each in hints)


@pytest.mark.parametrize(
    ("texts", "is_hinted"),
    [
        ({"authorizerd.callers.read": "User:a"}, True),
        ({"authorizerd.callers.read": " "}, False),
        ({"authorizerd.callers.read": "User:a", "authorizerd.tokens.file": "/t"}, False),
        ({"authorizerd.callers.ask": "User:a", f"{CLIENT_AUTH}": "requested"}, False),
        ({"authorizerd.callers.ask": "User:a", f"{CLIENT_AUTH}": "none"}, True),
        ({"super.users": "User:a"}, False),
    ],
)
def test_rights_without_credentials(texts: dict[str, str], is_hinted: bool) -> None:
    """Nobody could have them, and everybody could ask."""
    assert any("does not know who calls" in each for each in find_hints(texts)) is is_hinted


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({}, []),
        ({"authorizerd.decision.http": "http://0.0.0.0:1"}, ["authorizerd.decision.http"]),
        ({"authorizerd.decision.stream": "tcp://10.0.0.1:1"}, ["authorizerd.decision.stream"]),
        ({"authorizerd.decision.stream": "unix:/run/a.sock"}, []),
        ({"authorizerd.decision.http": "https://0.0.0.0:1", **KEYSTORE}, []),
    ],
)
def test_tokens_in_the_clear(settings: dict[str, str], keys: list[str]) -> None:
    values = {"node.id": "1", "log.dirs": "/log", "authorizerd.tokens.file": "/tokens", **settings}
    found = list(find_exposed_tokens(parse_values(values, source="test")))
    assert [
        each.partition(": other machines can reach it, and tokens")[0] for each in found
    ] == keys


def test_other_keys_have_no_hints() -> None:
    assert list(find_hints({"listeners": "user:*,User:a"})) == []
