"""Kafka's names of all its APIs, as its audit log prints them.

Source: kio.schema.index; Kafka 3.9 ApiKeys for the APIs that 4.0 removed; Kafka 4.4 ApiKeys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.index import api_key_map

_NAMES_KIO_LACKS: Final = {
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    93: "StreamsGroupTopologyDescriptionUpdate",
    94: "UnregisterController",
}
API_NAMES: Final[Mapping[int, str]] = {
    key: "".join(map(str.capitalize, name.split("_"))) for key, name in api_key_map.items()
} | _NAMES_KIO_LACKS
"""Names by API keys."""
