"""The versions that controllers of each Kafka know: the table of ``protocol.kafka.api``."""

import re
from collections.abc import Mapping

from authorizerd.protocol.kafka import api
from authorizerd.protocol.kafka.api import REQUESTED_APIS, RequestedKey

Versions = Mapping[RequestedKey, tuple[int, int]]

_ROW = re.compile(r"^\| (?P<name>\w+) +\|(?P<cells>.*)\|$", re.MULTILINE)


def read_table() -> dict[str, Versions]:
    """Return the lowest and highest version of each API, by the Kafka's version."""
    rows = {row["name"]: row["cells"].split("|") for row in _ROW.finditer(_table())}
    kafkas = [cell.strip() for cell in rows.pop("API")]
    keys = {api.name: key for key, api in REQUESTED_APIS.items()}
    return {
        kafka: {keys[name]: _read_range(cells[column]) for name, cells in rows.items()}
        for column, kafka in enumerate(kafkas)
    }


def _table() -> str:
    return api.__doc__ or ""


def _read_range(cell: str) -> tuple[int, int]:
    lowest, _, highest = cell.strip().partition("-")
    return int(lowest), int(highest)
