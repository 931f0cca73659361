"""Hints about settings that are valid, but probably not meant."""

from __future__ import annotations

import pytest

from authorizerd.config.hints import find_hints

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
            "user:alice",
            ["principal 'user:alice': Kafka's clients have the type User, in this letter case"],
        ),
        ("User: alice", ["principal 'User: alice': blanks around the name are a part of it"]),
        ("User:*", [f"principal 'User:*': {STAR}"]),
        ("User:b;User:a*;User:*", [f"principal 'User:{each}': {STAR}" for each in ("*", "a*")]),
    ],
)
def test_super_users(text: str, hints: list[str]) -> None:
    assert list(find_hints({"super.users": text})) == [f"super.users: {each}" for each in hints]


def test_other_keys_have_no_hints() -> None:
    assert list(find_hints({"listeners": "user:*,User:a"})) == []
