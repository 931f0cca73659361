"""The value of every key by itself, and the place where it was set.

**Invariant:** whether a value is valid here depends only on its key's parser, never on other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.key import Key
from authorizerd.config.keys import KEYS, KEYS_BY_NAME, unknown_key_reason
from authorizerd.config.own_keys import OWN_PREFIX
from authorizerd.config.properties import Property
from authorizerd.config.values import trim

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    """The values that rules over several keys use.

    ``values`` has every key of the table, with the text's value, the default, or None.
    """

    source: str
    properties: Mapping[str, Property]
    values: Mapping[str, Any]

    def refusal(self, key: str, reason: str) -> ConfigurationError:
        """Return an error that names a key and the place where it was set."""
        place = self.properties.get(key)
        if place is None:
            return ConfigurationError(self.source, None, key, reason)
        return ConfigurationError(place.source, place.line, key, reason)

    def read(self, key: str, parse: Callable[[str], Value]) -> Value | None:
        """Return the value of a key that is not in the table, or None if it is not set.

        Raises:
            ConfigurationError: ``parse`` rejects its text.
        """
        place = self.properties.get(key)
        return None if place is None else _parsed(place, parse)


def read_key_values(properties: Mapping[str, Property], source: str) -> KeyValues:
    """Return the value of each key.

    Raises:
        ConfigurationError: an unknown key with our prefix, or else the first key of the table that
            is malformed or rejected.
    """
    for name, place in properties.items():
        if name.startswith(OWN_PREFIX) and name not in KEYS_BY_NAME:
            raise ConfigurationError(place.source, place.line, name, unknown_key_reason(name))
    values = {key.name: _read_value(key, properties.get(key.name)) for key in KEYS}
    return KeyValues(source=source, properties=properties, values=values)


def _read_value(key: Key, place: Property | None) -> Any:  # noqa: ANN401 - per key
    if place is None:
        return None if key.default is None else key.parse(key.default)
    return _parsed(place, key.parse)


def _parsed(place: Property, parse: Callable[[str], Value]) -> Value:
    try:
        return parse(trim(place.value))
    except InvalidValueError as error:
        raise ConfigurationError(place.source, place.line, place.key, str(error)) from None
