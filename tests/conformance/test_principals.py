"""Java's names of random certificates, and Kafka's principals for random mapping rules."""

import sys
from collections import Counter
from unicodedata import category

import pytest

from tests.conformance.random_names import random_names, random_rules
from tests.kafka_rig.oracle import principal_answers
from tests.kafka_rig.rig import Rig
from tests.oracles.principals import cases, our_name, our_principals

NAMES = 6000
RULES = 10_000
# A BMPString, which Java has read by its type since April 2026.
_BMP_NAME = {"name": "300d310b300906035504031e020041"}


def test_every_name_equals_javas(rig: Rig, seed: int) -> None:
    """We may refuse more damaged names than Java, because we accept only one encoding of a name."""
    (text,) = principal_answers(rig, [_BMP_NAME])
    named = list(random_names(seed, NAMES, of_any_java=text != "CN=A"))
    met: Counter[str] = Counter()
    for number, (case, java) in enumerate(zip(named, principal_answers(rig, named), strict=True)):
        ours = our_name(case)
        if ours is None and case.get("damaged"):
            met["damaged"] += 1
            continue
        assert ours == java, f"seed {seed}, name {number}: {case}"
        met["refused" if java is None else "equal"] += 1
    assert met["equal"] > 4000, met
    assert min(met["damaged"], met["refused"]) > 30, met


def test_every_principal_equals_kafkas(rig: Rig, seed: int) -> None:
    """We may refuse rules or names that Kafka accepts, but never map a name differently."""
    ruled = list(random_rules(seed, RULES))
    met: Counter[str] = Counter()
    for number, (case, kafka) in enumerate(zip(ruled, principal_answers(rig, ruled), strict=True)):
        place = f"seed {seed}, rules {number}: {case['rules']!r}"
        ours = our_principals(case)
        if ours is None:
            met["both refuse" if kafka is None else "ours refuses"] += 1
            continue
        assert kafka is not None, place
        for name, mine, theirs in zip(case["names"], ours, kafka, strict=True):
            if mine is not None or theirs is None:
                assert mine == theirs, f"{place}, {name!r}"
            refused = "no principal" if theirs is None else "name refused"
            met[refused if mine is None else "equal"] += 1
    assert met["equal"] > RULES // 2, met
    assert met["no principal"] > RULES // 2, met
    assert met["ours refuses"] < RULES * 2 // 5, met
    assert met["name refused"] < RULES // 50, met


@pytest.mark.parametrize("case", ["L", "U"])
def test_every_characters_case_equals_javas(rig: Rig, case: str) -> None:
    """Unassigned characters are refused. Those for private use have no case."""
    names = [each for each in map(chr, range(sys.maxunicode + 1)) if category(each)[0] != "C"]
    asked = {"rules": f"RULE:(?s).*/$0/{case}", "names": names}
    (kafka,) = principal_answers(rig, [asked])
    ours = our_principals(asked)
    assert ours is not None
    assert len([name for name, mine in zip(names, ours, strict=True) if mine is None]) < 250
    for name, mine, theirs in zip(names, ours, kafka, strict=True):
        assert mine in (None, theirs), f"U+{ord(name):04X}"


def test_recorded_principals_are_still_kafkas(rig: Rig) -> None:
    """Names are not compared, because their text depends on the release of Java."""
    recorded = [case for case in cases() if "rules" in case]
    assert principal_answers(rig, recorded) == [case["answer"] for case in recorded]
