"""Kafka's features: names of levels, and what is supported."""

import pytest

from authorizerd.image.features import (
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_KNOWN,
    SUPPORTED_FEATURES,
    features_at,
    name_metadata_version,
)


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (6, "level 6"),
        (7, "3.3-IV3"),
        (30, "4.3-IV0"),
        (31, "4.4-IV0"),
        (32, "4.4-IV1"),
        (33, "4.4-IV2"),
        (34, "4.5-IV0"),
        (35, "level 35"),
    ],
)
def test_level_of_metadata_version_has_kafkas_name(level: int, name: str) -> None:
    """Kafka 4.4's enumeration ends with 4.5-IV0, which is not stable there."""
    assert name_metadata_version(level) == name


def test_supported_levels_are_those_of_a_node_of_kafka_4_4() -> None:
    """As BrokerFeatures.defaultSupportedFeatures prints them; kraft.version is left out."""
    assert METADATA_VERSION_KNOWN == 33
    assert SUPPORTED_FEATURES == {
        METADATA_VERSION_FEATURE: (7, 33), "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1), "share.version": (0, 2), "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("level", "levels"),
    [
        (21, (0, 0, 0, 0, 0)),
        (22, (0, 1, 0, 0, 0)),
        (24, (0, 1, 0, 0, 2)),
        (26, (1, 1, 0, 0, 2)),
        (28, (1, 1, 1, 0, 2)),
        (30, (1, 1, 1, 1, 2)),
        (31, (1, 1, 2, 1, 2)),
        (33, (1, 1, 2, 1, 2)),
    ],
)
def test_new_log_has_the_features_of_its_level(level: int, levels: tuple[int, ...]) -> None:
    """As Feature.defaultLevel of Kafka 4.4 says. Kafka 4.3 knows only level 1 of share.version."""
    others = zip([*SUPPORTED_FEATURES][1:], levels, strict=True)
    expected = {METADATA_VERSION_FEATURE: level} | {name: each for name, each in others if each}
    assert features_at(level) == expected
