"""The parsers of flags' values that the command line and replay share."""

from __future__ import annotations

import argparse
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from authorizerd.config.endpoints import HttpEndpoint, is_loopback, parse_http_endpoint
from authorizerd.config.errors import InvalidValueError

_DURATION: Final = re.compile(r"([0-9]{1,9})(s|m|h|d)", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_duration(text: str) -> int:
    """Return the seconds of a time such as ``30s``, ``5m``, ``24h`` or ``7d``."""
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"expected a time such as 30s, 24h or 7d, found {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def parse_moment(text: str) -> int:
    """Return the milliseconds since 1970 of a time in ISO 8601, in UTC unless it has a zone."""
    try:
        time = datetime.fromisoformat(text)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"expected a time such as 2026-11-21T16:31, found {text!r}"
        ) from None


def parse_count(text: str) -> int:
    """Return a number of at least 0."""
    if not re.fullmatch("[0-9]{1,12}", text):
        raise argparse.ArgumentTypeError(f"expected a number such as 1000, found {text!r}")
    return int(text)


def parse_ratio(text: str) -> float:
    """Parse a number from 0 to 1."""
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, found {text!r}")
    return ratio


def parse_address(text: str) -> HttpEndpoint:
    """Parse HOST:PORT."""
    with suppress(InvalidValueError):
        address = parse_http_endpoint(f"http://{text}")
        if address.host is not None:
            return address
    raise argparse.ArgumentTypeError(f"expected HOST:PORT, found {text!r}")


def parse_loopback(text: str) -> HttpEndpoint:
    """Parse HOST:PORT of a port without a login, which only this machine may reach."""
    address = parse_address(text)
    if not is_loopback(address):
        raise argparse.ArgumentTypeError(
            f"expected a loopback address, such as 127.0.0.1:{address.port}, found {text!r}: the "
            "port has no login"
        )
    return address
