from collections import Counter

import pytest

from authorizerd.config.errors import InvalidValueError, PrincipalMappingError
from authorizerd.config.principals.mapping import (
    DEFAULT_RULES,
    NAME_CHARACTERS_MAX,
    PrincipalMapping,
)
from authorizerd.config.principals.rules import parse_rules
from tests.oracles.principals import cases, our_principals

RULES = r"""RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,
            RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,
            RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"""


@pytest.mark.parametrize("text", [DEFAULT_RULES, f" {DEFAULT_RULES} ", f"\t{DEFAULT_RULES}\n"])
def test_default_rules_are_the_same_as_if_they_were_parsed(text: str) -> None:
    """They are recognized without Java's patterns, which take long to load."""
    assert PrincipalMapping.parse(text).rules == (*parse_rules(text),) == (None,)


def test_recorded_rules_give_kafkas_principals() -> None:
    """A rule or a name may be refused, but it never gives another principal."""
    met: Counter[str] = Counter()
    for case in (each for each in cases() if "rules" in each):
        ours = our_principals(case)
        if ours is None:
            met["rules refused"] += 1
            continue
        for name, mine, kafkas in zip(case["names"], ours, case["answer"], strict=True):
            if mine is not None or kafkas is None:
                assert mine == kafkas, (case["rules"], name)
            met["name refused" if mine != kafkas else "equal"] += 1
    assert met["equal"] > 1600, met
    assert met["rules refused"] < 190, met
    assert met["name refused"] < 20, met


@pytest.mark.parametrize(("name", "principal"), [
    ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
    ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
    ("C=US,cn=duke.1,OU=x", "DUKE.1"),
])  # fmt: skip
def test_first_matching_rule_maps_the_name(name: str, principal: str) -> None:
    assert PrincipalMapping.parse(RULES).apply(name) == principal


@pytest.mark.parametrize("rules", [RULES, "", "RULE:CN=x/y/"])
def test_name_that_no_rule_matches_has_no_principal(rules: str) -> None:
    with pytest.raises(PrincipalMappingError, match=r"no rule matches 'OU=z,O=x'"):
        PrincipalMapping.parse(rules).apply("OU=z,O=x")


def test_default_rule_keeps_any_name() -> None:
    assert PrincipalMapping.parse(DEFAULT_RULES).apply("CN=a\\,b") == "CN=a\\,b"


@pytest.mark.parametrize(("rules", "error"), [
    ("DEFAULTS", "invalid rule 'DEFAULTS': .*, found 'S'"),
    ("RULE:a/b", "invalid rule 'RULE:a/b': .*, found 'RULE:a/b'"),
    ("DEFAULT, RULE:a/b/LU", "invalid rule 'RULE:a/b/LU': .*, found 'U'"),
    ("RULE:(a/b/", r"rule 'RULE:\(a/b/': invalid pattern '\(a': .*: this group is not closed"),
    ("RULE:a/$1/", r"invalid replacement '\$1': '\$1' at character 1: .* no group 1"),
    ("RULE:(a)/x$y/", r"'\$y' at character 2: write "),
    ("RULE:(a)/${n}/", r"the pattern has no group 'n'"),
    ("RULE:a/b/,RULE:CN=(?!x).*/y/", r"rule 'RULE:CN=\(\?!x\).*/y/': .* look-around"),
    ("RULE:a/b/\x85", "line terminator at the end"),
    ("RULE:(a)/$2147483648/", r"expected a number below 2\^31"),
    # Kafka accepts these, and escapes the second reference in the wrong place.
    ("RULE:(a)/$2$3/", "the pattern has no group 3"),
])  # fmt: skip
def test_invalid_rule_is_rejected_with_its_place(rules: str, error: str) -> None:
    with pytest.raises(InvalidValueError, match=error):
        PrincipalMapping.parse(rules)


@pytest.mark.parametrize("rules", ["DEFAULT", "RULE:.*/x/"])
def test_long_name_has_no_principal(rules: str) -> None:
    mapping = PrincipalMapping.parse(rules)
    assert mapping.apply("x" * NAME_CHARACTERS_MAX)
    with pytest.raises(PrincipalMappingError, match="16385 characters: expected at most 16384"):
        mapping.apply("x" * (NAME_CHARACTERS_MAX + 1))


@pytest.mark.parametrize(("name", "lower", "upper"), [
    ("CN=İ", "cn=i̇", "CN=İ"),
    ("CN=ıſßŉ", "cn=ıſßŉ", "CN=ISSSʼN"),
    ("CN=ﬃᾳǅ", "cn=ﬃᾳǆ", "CN=FFIΑΙǄ"),
    ("CN=𐐀𐐨😀\ue000", "cn=𐐨𐐨😀\ue000", "CN=𐐀𐐀😀\ue000"),
    ("CN=Ꭰꭰა", "cn=ꭰꭰა", "CN=ᎠᎠᲐ"),
])  # fmt: skip
def test_case_is_javas(name: str, lower: str, upper: str) -> None:
    """These are the answers of Java 17."""
    assert PrincipalMapping.parse("RULE:.*/$0/L").apply(name) == lower
    assert PrincipalMapping.parse("RULE:.*/$0/U").apply(name) == upper


def test_long_principal_is_rejected() -> None:
    mapping = PrincipalMapping.parse("RULE:(.*)/$1$1/")
    assert len(mapping.apply("x" * (NAME_CHARACTERS_MAX // 2))) == NAME_CHARACTERS_MAX
    with pytest.raises(PrincipalMappingError, match="has 16386 characters"):
        mapping.apply("x" * (NAME_CHARACTERS_MAX // 2 + 1))


@pytest.mark.parametrize(("rules", "name"), [
    ("RULE:.*\\b(?:x|ax).*/$0/", "CN=é x"),  # Java 19 has changed \b
    ("RULE:(?s)CN=([^,]*).*$/$1/", "CN=a,O=x\n"),  # Java's $ matches before it as well
    ("RULE:CN=\\P{Lu}*.*/$0/", "CN=\u1c89"),  # a letter since Unicode 16
    ("RULE:CN=(.*?)/$1/", "CN=\U0001f600"),  # Java replaces the half of a character
    ("RULE:(?:|CN=.*)/$0/", "CN=" + "x" * 32),  # Java replaces at each character
    ("RULE:CN=.*/$0/", "CN=\ud800"),
    ("RULE:CN=.*/$0/L", "CN=İΣ1"),  # Java finds the ends of words by rules of its own
    ("RULE:CN=.*/$0/L", "CN=\ua7c0"),  # a letter with a lower case since Unicode 14
    ("RULE:CN=.*/$0/U", "CN=\u019b"),  # this old letter has an upper case since Unicode 16
    ("RULE:CN=.*/$0/U", "CN=\uffff"),  # unassigned
])  # fmt: skip
def test_name_for_which_javas_answer_is_unknown_has_no_principal(rules: str, name: str) -> None:
    """No later rule gives the name a principal either."""
    mapping = PrincipalMapping.parse(f"{rules},DEFAULT")
    assert mapping.apply("CN=ax").lower() in ("cn=ax", "ax")
    with pytest.raises(PrincipalMappingError):
        mapping.apply(name)
