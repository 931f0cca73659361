"""Kafka's names of metadata records, for texts about records that the daemon does not keep.

Source: Kafka 4.3 MetadataRecordType.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_NAMES: Final = {
    0: "REGISTER_BROKER_RECORD",
    1: "UNREGISTER_BROKER_RECORD",
    2: "TOPIC_RECORD",
    3: "PARTITION_RECORD",
    4: "CONFIG_RECORD",
    5: "PARTITION_CHANGE_RECORD",
    7: "FENCE_BROKER_RECORD",
    8: "UNFENCE_BROKER_RECORD",
    9: "REMOVE_TOPIC_RECORD",
    10: "DELEGATION_TOKEN_RECORD",
    14: "CLIENT_QUOTA_RECORD",
    15: "PRODUCER_IDS_RECORD",
    17: "BROKER_REGISTRATION_CHANGE_RECORD",
    21: "ZK_MIGRATION_STATE_RECORD",
    26: "REMOVE_DELEGATION_TOKEN_RECORD",
    28: "CLEAR_ELR_RECORD",
}


def name_record_types(types: Iterable[int]) -> str:
    """Return the names of these types, sorted by number and separated by commas."""
    return ", ".join(_NAMES.get(each, f"record type {each}") for each in sorted(types))
