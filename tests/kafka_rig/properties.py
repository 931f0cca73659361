"""Java properties files and free ports for Kafka's programs."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"

_LASTING_PORTS: Final = range(10_000, 32_000)
"""Below the kernel's usual range for port 0, so that no other program gets one meanwhile."""

_RANDOM: Final = random.SystemRandom()


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file, with escapes for all but ASCII."""
    lines = (f"{key}={_escaped(value)}\n" for key, value in properties.items())
    path.write_text("".join(lines), encoding="ascii")


def client_properties(user: str, password: str) -> dict[str, str]:
    """Return the configuration of a client that logs in as ``user`` with SASL PLAIN."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_LOGIN} username="{user}" password="{password}";',
    }


def local_address(port: int) -> str:
    """Return ``host:port``."""
    return f"{HOST}:{port}"


def find_free_ports(count: int) -> list[int]:
    """Return different ports that were free a moment ago."""
    # All sockets stay open until the end, because the kernel may return a closed one's port again.
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def find_lasting_ports(count: int) -> list[int]:
    """Return different free ports that programs which bind port 0 do not get.

    A node can end and start again on such a port, while other programs bind and connect.
    """
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = _RANDOM.choice(_LASTING_PORTS)
            try:
                stack.enter_context(socket.create_server((HOST, port)))
            except OSError:
                continue
            found.append(port)
    return found


def _escaped(value: str) -> str:
    # Java reads \\uXXXX as UTF-16, so characters above U+FFFF take two escapes.
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    pairs = (int.from_bytes(units[n : n + 2], "big") for n in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x80 else f"\\u{unit:04x}" for unit in pairs)
