from __future__ import annotations

import pytest

from authorizerd.config.errors import InvalidValueError, PrincipalMappingError
from authorizerd.config.principal_mapping import (
    DEFAULT_RULES,
    NAME_CHARACTERS_MAX,
    PrincipalMapping,
)
from authorizerd.config.principal_rules import parse_rules
from tests.oracles.principals import cases, our_principals

RULES = r"""RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,
            RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,
            RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"""


@pytest.mark.parametrize("text", [DEFAULT_RULES, f" {DEFAULT_RULES} ", f"\t{DEFAULT_RULES}\n"])
def test_default_rules_are_the_same_as_if_they_were_parsed(text: str) -> None:
    """They are recognized without Java's patterns, which take long to load."""
    assert PrincipalMapping.parse(text).rules == (*parse_rules(text),) == (None,)


def test_recorded_rules_give_kafkas_principals() -> None:
    met = 0
    for case in cases():
        if "rules" in case:
            assert our_principals(case) == case["answer"], case["rules"]
            met += 1
    assert met > 350


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("C=US,cn=duke.1,OU=x", "DUKE.1"),
    ],
)
def test_first_matching_rule_maps_the_name(name: str, principal: str) -> None:
    assert PrincipalMapping.parse(RULES).apply(name) == principal


@pytest.mark.parametrize("rules", [RULES, "", "RULE:CN=x/y/"])
def test_name_that_no_rule_matches_has_no_principal(rules: str) -> None:
    with pytest.raises(PrincipalMappingError, match=r"no rule matches 'OU=z,O=x'"):
        PrincipalMapping.parse(rules).apply("OU=z,O=x")


def test_default_rule_keeps_any_name() -> None:
    assert PrincipalMapping.parse(DEFAULT_RULES).apply("CN=a\\,b") == "CN=a\\,b"


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ("DEFAULTS", "invalid rule 'DEFAULTS': .*, found 'S'"),
        ("RULE:a/b", "invalid rule 'RULE:a/b': .*, found 'RULE:a/b'"),
        ("DEFAULT, RULE:a/b/LU", "invalid rule 'RULE:a/b/LU': .*, found 'U'"),
        ("RULE:(a/b/", r"rule 'RULE:\(a/b/': invalid pattern '\(a': .*: this group is not closed"),
        ("RULE:a/$1/", r"invalid replacement '\$1': '\$1' at character 1: .* no group 1"),
        ("RULE:(a)/x$y/", r"'\$y' at character 2: write "),
        ("RULE:(a)/${n}/", r"the pattern has no group 'n'"),
        ("RULE:(a)/$2147483648/", r"expected a number below 2\^31"),
        # Kafka accepts these, and escapes the second reference in the wrong place.
        ("RULE:(a)/$2$3/", "the pattern has no group 3"),
    ],
)
def test_invalid_rule_is_rejected_with_its_place(rules: str, error: str) -> None:
    with pytest.raises(InvalidValueError, match=error):
        PrincipalMapping.parse(rules)


@pytest.mark.parametrize("rules", ["DEFAULT", "RULE:.*/x/"])
def test_long_name_has_no_principal(rules: str) -> None:
    mapping = PrincipalMapping.parse(rules)
    assert mapping.apply("x" * NAME_CHARACTERS_MAX)
    with pytest.raises(PrincipalMappingError, match="16385 characters: expected at most 16384"):
        mapping.apply("x" * (NAME_CHARACTERS_MAX + 1))


def test_long_principal_is_rejected() -> None:
    mapping = PrincipalMapping.parse("RULE:(.*)/$1$1/")
    assert len(mapping.apply("x" * (NAME_CHARACTERS_MAX // 2))) == NAME_CHARACTERS_MAX
    with pytest.raises(PrincipalMappingError, match="has 16386 characters"):
        mapping.apply("x" * (NAME_CHARACTERS_MAX // 2 + 1))


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("RULE:.*\\b(?:x|ax).*/$0/", "CN=é x"),  # Java 19 has changed \b
        ("RULE:.*(?<=x)/$0/", "CN=\U0001f600x"),  # Java steps back by half a character
        ("RULE:CN=(.*?)/$1/", "CN=\U0001f600"),  # Java replaces the half of a character
    ],
)
def test_name_for_which_javas_answer_is_unknown_has_no_principal(rules: str, name: str) -> None:
    mapping = PrincipalMapping.parse(rules)
    assert mapping.apply("CN=ax")
    with pytest.raises(PrincipalMappingError):
        mapping.apply(name)
