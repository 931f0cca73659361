"""Java's names of random certificates, and Kafka's principals for random mapping rules."""

from __future__ import annotations

from collections import Counter

from ops.kafka_rig.oracle import principal_answers
from ops.kafka_rig.rig import Rig
from tests.conformance.random_names import random_names, random_rules
from tests.oracles.principals import cases, our_name, our_principals

NAMES = 6000
RULES = 6000
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
    assert met["equal"] > 3000, met
    assert met["no principal"] > 3000, met
    assert met["ours refuses"] < RULES * 2 // 5, met
    assert met["name refused"] < RULES // 50, met


def test_recorded_principals_are_still_kafkas(rig: Rig) -> None:
    """Names are not compared, because their text depends on the release of Java."""
    recorded = [case for case in cases() if "rules" in case]
    assert principal_answers(rig, recorded) == [case["answer"] for case in recorded]
