"""Build a small server.properties for a test, and read it."""

from collections.abc import Callable

import pytest

from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.endpoints import Endpoint
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.values import SecurityProtocol

SOURCE = "server.properties"
BASE = "node.id=1\nlog.dirs=/var/lib/kafka\n"  # what a test adds begins on line 3


def configure(*lines: str, overrides: tuple[str, ...] = ()) -> Configuration:
    return parse(BASE + "\n".join(lines), source=SOURCE, overrides=overrides)


def refuse(text: str, *, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigurationError) as refusal:
        parse(text, source=SOURCE, overrides=overrides)
    return str(refusal.value)


def reason(parse: Callable[[str], object], text: str) -> str:
    with pytest.raises(InvalidValueError) as refusal:
        parse(text)
    return str(refusal.value)


def endpoint(
    name: str, host: str | None, port: int, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
) -> Endpoint:
    return Endpoint(listener_name=name, security_protocol=protocol, host=host, port=port)
