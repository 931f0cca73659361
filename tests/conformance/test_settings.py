"""What Kafka reads from random JAAS lines and properties files, compared with what we read."""

from collections import Counter

from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.jaas import parse_login
from authorizerd.config.properties import parse_properties
from tests.conformance.random_settings import random_jaas_lines, random_properties
from tests.kafka_rig.oracle import settings_answers
from tests.kafka_rig.rig import Rig

CASES = 10_000


def our_login(line: str) -> list[object] | None:
    try:
        return list(parse_login(line))
    except InvalidValueError:
        return None


def our_properties(text: str) -> dict[str, str] | str:
    """Return the properties, or the reason of the error."""
    try:
        read = parse_properties(text, source="f")
    except ConfigurationError as error:
        return error.reason
    return {key: each.value for key, each in read.items()}


def test_every_jaas_line_equals_kafkas(rig: Rig, seed: int) -> None:
    lines = list(random_jaas_lines(seed, CASES))
    met: Counter[str] = Counter()
    for number, (case, kafka) in enumerate(zip(lines, settings_answers(rig, lines), strict=True)):
        ours = our_login(case["jaas"])
        assert ours == kafka, f"seed {seed}, line {number}: {case}"
        met["refused" if ours is None else "equal"] += 1
    assert min(met["refused"], met["equal"]) > CASES // 5, met


def test_every_properties_file_equals_javas(rig: Rig, seed: int) -> None:
    """Two differences are on purpose: half of a pair, and a lone backslash at the end."""
    files = list(random_properties(seed, CASES))
    met: Counter[str] = Counter()
    for number, (case, java) in enumerate(zip(files, settings_answers(rig, files), strict=True)):
        place = f"seed {seed}, file {number}: {case}"
        ours = our_properties(case["properties"])
        if isinstance(ours, dict):
            ends_in_backslash = case["properties"].rstrip("\r\n").endswith("\\")
            added = {"": ""} if ends_in_backslash and java != ours else {}
            assert java == {**ours, **added}, place
            met["backslash" if added else "equal"] += 1
        elif java is None:
            met["both refuse"] += 1
        else:
            assert "half of one" in ours, place
            met["half"] += 1
    assert min(met["equal"], met["both refuse"] * 5) > CASES // 3, met
    assert min(met["half"], met["backslash"]) > 0, met
