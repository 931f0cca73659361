"""Names hidden in the audit log."""

import hmac
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.line import audit_message
from authorizerd.acl.audit.mask import CUT, HASH_DIGITS, HASH_PREFIX, Masker, Masking
from authorizerd.acl.decision import DEFAULT_DENY, Decision, MatchingAcl, UnjudgeableAcl
from authorizerd.acl.model import Acl, PatternType, Question

SECRET = b"0123456789abcdef"
NAMES = st.text("äöüß", min_size=4, max_size=8)  # no other text of a line contains these characters
MASKINGS = st.sampled_from(Masking)


def masker(
    principal: Masking = Masking.NONE,
    host: Masking = Masking.NONE,
    resource: Masking = Masking.NONE,
    secret: bytes = SECRET,
) -> Masker:
    return Masker(principal=principal, host=host, resource=resource, secret=secret)


def line_of(masker: Masker, question: Question, decision: Decision) -> str:
    return audit_message(masker.question(question), masker.decision(decision), "Fetch")


@given(NAMES, NAMES, NAMES, MASKINGS, MASKINGS, MASKINGS)
def test_only_hidden_names_are_missing_from_the_line(
    name: str, host: str, resource: str, of_name: Masking, of_host: Masking, of_resource: Masking
) -> None:
    """The rule repeats all three, with a prefix of the resource."""
    name, host, resource = f"N{name}", f"H{host}", f"R{resource}"
    question = Question(f"User:{name}", host, 3, 2, f"{resource}-1")
    acl = Acl(2, resource, PatternType.PREFIXED, f"User:{name}", host, 3, 3)
    line = line_of(
        masker(of_name, of_host, of_resource), question, Decision(True, MatchingAcl(acl))
    )
    for hidden, masking in ((name, of_name), (host, of_host), (resource, of_resource)):
        assert (hidden in line) is (masking is Masking.NONE)


@given(NAMES, NAMES)
def test_equal_names_have_equal_hashes_and_others_differ(one: str, other: str) -> None:
    """This holds for questions and rules, in every process that has the secret."""
    every = (Masking.HASH, Masking.HASH, Masking.HASH)
    first, second = masker(*every), masker(*every)
    acl = Acl(2, one, PatternType.LITERAL, f"User:{one}", "10.0.0.1", 3, 3)
    asked = first.question(Question(f"User:{one}", "10.0.0.1", 3, 2, one))
    rule = second.decision(Decision(True, MatchingAcl(acl))).rule
    assert isinstance(rule, MatchingAcl)
    assert (asked.principal, asked.host, asked.resource_name) == (
        rule.acl.principal,
        rule.acl.host,
        rule.acl.resource_name,
    )
    assert (first.principal(f"User:{one}") == first.principal(f"User:{other}")) is (one == other)


@pytest.mark.parametrize("masking", [Masking.HASH, Masking.CUT])
def test_principal_without_a_colon_is_hidden_in_the_rule(masking: Masking) -> None:
    """The rule of a failure names the principal, the host and the pattern of an ACL."""
    rule = UnjudgeableAcl(Acl(2, "orders", PatternType.LITERAL, "secret", "10.0.0.1", 3, 3))
    every = masker(masking, masking, masking)
    line = line_of(every, Question("User:a", "10.0.0.9", 3, 2, "orders"), Decision(False, rule))
    assert "UnjudgeableAcl(acl=" in line
    assert not any(hidden in line for hidden in ("secret", "10.0.0.1", "orders"))


def test_the_hash_is_computed_as_documented() -> None:
    """HMAC-SHA-256 of the kind, a zero byte and the name, so that users can search for a name."""
    every = masker(Masking.HASH, Masking.HASH, Masking.HASH)
    hidden = every.question(Question("User:a", "h", 3, 2, "t"))
    for found, text in (
        (hidden.principal.removeprefix("User:"), b"principal\0a"),
        (hidden.host, b"host\0h"),
        (hidden.resource_name, b"resource\0t"),
    ):
        digest = hmac.new(SECRET, text, "sha256").hexdigest()
        assert found == HASH_PREFIX + digest[:HASH_DIGITS]


def test_another_secret_gives_another_hash() -> None:
    """Without the secret, nobody can find a name by trying candidates."""
    hashes = {masker(Masking.HASH, secret=each).principal("User:a") for each in (SECRET, b"x" * 16)}
    assert len(hashes) == 2


def test_a_name_has_another_hash_for_each_kind() -> None:
    """A user and a topic of the same name cannot be linked."""
    every = masker(Masking.HASH, Masking.HASH, Masking.HASH)
    hidden = every.question(Question("User:a", "a", 3, 2, "a"))
    assert len({hidden.principal.removeprefix("User:"), hidden.host, hidden.resource_name}) == 3


def test_wildcards_and_unknown_hosts_are_not_hidden() -> None:
    """Wildcards name nobody, and an unknown host must not look like a hidden one."""
    every = masker(Masking.CUT, Masking.CUT, Masking.CUT)
    acl = Acl(2, "*", PatternType.LITERAL, "User:*", "*", 3, 3)
    decision = Decision(True, MatchingAcl(acl))
    assert every.decision(decision) == decision
    assert every.decision(DEFAULT_DENY) is DEFAULT_DENY
    assert every.question(Question("User:a", None, 3, 2, "t")) == (
        Question(f"User:{CUT}", None, 3, 2, CUT)
    )


@pytest.mark.parametrize("name", ["", "no type", "a" * 10_000, "\ud800", "User:", "User:a:b"])
def test_any_principal_can_be_hidden(name: str) -> None:
    """This includes a long name and one that is not valid Unicode. Only the type remains."""
    hidden = masker(Masking.HASH).principal(name)
    kind, colon, _ = name.partition(":")
    assert hidden.startswith(f"{kind if colon else ''}{colon}{HASH_PREFIX}")
    assert len(hidden) == len(kind + colon if colon else "") + len(HASH_PREFIX) + HASH_DIGITS


def test_the_masker_names_what_it_hides_and_never_its_secret() -> None:
    for principal, host, resource in product(Masking, repeat=3):
        expected = [
            name
            for name, masking in zip(
                ("principal", "host", "resource"), (principal, host, resource), strict=True
            )
            if masking is not Masking.NONE
        ]
        every = masker(principal, host, resource)
        assert list(every.masked) == expected
        assert SECRET.decode() not in repr(every)
