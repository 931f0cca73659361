"""Kafka's features: the levels that this version of the daemon knows, and their names.

**Invariant:** every list of levels is derived from these tables.

Source: KIP-584, KIP-778; Kafka 4.4 MetadataVersion, Feature, BrokerFeatures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

METADATA_VERSION_FEATURE: Final = "metadata.version"
METADATA_VERSION_KNOWN: Final = 33
"""The newest metadata.version whose records are known: 4.4-IV2."""
METADATA_VERSION_WITH_SCRAM: Final = 11
"""The first metadata.version with records of SCRAM credentials: 3.5-IV2."""

_FIRST_METADATA_VERSIONS: Final[Mapping[str, Sequence[int]]] = {
    "eligible.leader.replicas.version": (26,),
    "group.version": (22,),
    "share.version": (28, 31),
    "streams.version": (29,),
    "transaction.version": (24, 24),
}
"""The lowest metadata.version at which Kafka formats a log with level 1, 2, … of a feature."""

SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION_FEATURE: (7, METADATA_VERSION_KNOWN)
} | {name: (0, len(levels)) for name, levels in _FIRST_METADATA_VERSIONS.items()}
"""The lowest and the highest level of each feature, as of a node of Kafka 4.4.

kraft.version is missing: the daemon takes no part in a quorum with dynamic voters (KIP-853).
"""

METADATA_VERSION_NAMES: Final[Mapping[int, str]] = {
    7: "3.3-IV3", 8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0",
    13: "3.6-IV1", 14: "3.6-IV2", 15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3",
    19: "3.7-IV4", 20: "3.8-IV0", 21: "3.9-IV0", 22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2",
    25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0",
    31: "4.4-IV0", 32: "4.4-IV1", 33: "4.4-IV2", 34: "4.5-IV0",
}  # fmt: skip


def name_metadata_version(level: int) -> str:
    """Return Kafka's name of a level of metadata.version, or its number if it has none yet."""
    return METADATA_VERSION_NAMES.get(level, f"level {level}")


def features_at(metadata_version: int) -> dict[str, int]:
    """Return the features of a log that Kafka formats at this level, metadata.version first.

    Nodes of that Kafka release would exit on a level that they do not know.
    """
    levels = {
        name: sum(first <= metadata_version for first in firsts)
        for name, firsts in _FIRST_METADATA_VERSIONS.items()
    }
    return {METADATA_VERSION_FEATURE: metadata_version} | {
        name: level for name, level in levels.items() if level
    }
