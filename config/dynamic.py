"""Select the value of a key that is in force: the file's, or one set while the daemon runs.

**Invariant:** a value set for this node overrides one set for all nodes; both override the file.
Guarded keys, such as ``super.users`` and those of a third-party authorizer, are the exception: each
reading of the file resets them. So the owner of the file always decides who may do everything, and
what the audit log omits.

Source: KIP-226 (dynamic broker configuration); Kafka 4.3 DynamicBrokerConfig, ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from immutables import Map

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.follow.settings import servers, voters
from authorizerd.config.key import OWN_PREFIX, Key
from authorizerd.config.keys import KEYS, KEYS_BY_NAME
from authorizerd.config.own_keys import CALLERS_PREFIX
from authorizerd.config.providers import has_placeholder
from authorizerd.config.tls_keys import (
    cipher_suites,
    is_secret_ssl_key,
    kafka_ssl_name,
    secret_text,
    tls_versions,
)
from authorizerd.config.values import IntegerParser, boolean, paths, some_words, trim, words

_GUARDED_PREFIXES: Final = (f"{OWN_PREFIX}audit.", CALLERS_PREFIX)

SUPER_USER_ONLY_KEYS: Final = frozenset(
    (
        "super.users",
        "allow.everyone.if.no.acl.found",
        "max.connections.per.ip.overrides",
        *(key.name for key in KEYS if key.reloadable and key.name.startswith(_GUARDED_PREFIXES)),
    )
)
"""Our keys for the super users, access without ACLs, the rights of callers, auditing, and the
limits per address.

Only super users may change them.
"""

_NONE: Final[Mapping[str, str]] = Map()
_DEFAULTS: Final = {key.name: key.default for key in KEYS if key.default is not None}
_INT_MAX: Final = 2**31 - 1
_LISTS: Final = (words, some_words, paths, tls_versions, cipher_suites, servers, voters)


class ConfigSource(IntEnum):
    """The origin of a value, by Kafka's codes."""

    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigType(IntEnum):
    """The type of a key's value, by Kafka's codes."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7
    PASSWORD = 9


class ConfigValue(NamedTuple):
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The values of each layer by key.

    ``node`` and ``everywhere`` are the log's values for this node and for every node.
    ``since_reload`` has the guarded keys that were set since the file was read.
    """

    file: Mapping[str, str]
    everywhere: Mapping[str, str] = _NONE
    node: Mapping[str, str] = _NONE
    since_reload: Mapping[str, str] = _NONE
    plugged: frozenset[str] = frozenset()

    def look_up(self, name: str) -> list[ConfigValue]:
        """Return the values of a key: the one in force first, a default last."""
        values: list[ConfigValue] = []
        # The log's values do not count: otherwise the log could name super users.
        if is_guarded(name, self.plugged):
            values += _value(self.since_reload, name, ConfigSource.DYNAMIC_BROKER)
        elif may_change(name, self.plugged):
            values += _value(self.node, name, ConfigSource.DYNAMIC_BROKER)
            values += _value(self.everywhere, name, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        values += _value(self.file, name, ConfigSource.STATIC_BROKER)
        values += _value(_DEFAULTS, name, ConfigSource.DEFAULT)
        return values

    def names(self) -> set[str]:
        """Return every key that has a value."""
        return {*_DEFAULTS, *self.file, *self.everywhere, *self.node, *self.since_reload}

    def merge(self) -> dict[str, str]:
        """Return the trimmed value in force of every key that has one."""
        values = {name: self.look_up(name) for name in self.names()}
        return {name: trim(layers[0].value) for name, layers in values.items() if layers}


def _value(layer: Mapping[str, str], name: str, source: ConfigSource) -> list[ConfigValue]:
    value = layer.get(name)
    return [] if value is None else [ConfigValue(value, source)]


def select_plugged_keys(reconfigurable: Iterable[str]) -> frozenset[str]:
    """Return the authorizer's own keys among its ``reconfigurable_configs``."""
    return frozenset(
        name
        for name in reconfigurable
        if name not in KEYS_BY_NAME and not name.startswith(OWN_PREFIX)
    )


def may_change(name: str, plugged: frozenset[str]) -> bool:
    """Return True if a key may be set while the daemon runs.

    Args:
        plugged: the authorizer's own keys that can change while it runs, and the keys of this
            node's stores.
    """
    key = KEYS_BY_NAME.get(name)
    return name in plugged or (key is not None and key.reloadable)


def is_guarded(name: str, plugged: frozenset[str]) -> bool:
    """Return True if only super users may set a key, and reading the file resets it."""
    return name in SUPER_USER_ONLY_KEYS or name in plugged


def split_valid(values: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid values, and one error text for each of the others."""
    sound: dict[str, str] = {}
    faults: list[str] = []
    for name, value in values.items():
        try:
            check_value(name, value)
        except InvalidValueError as error:
            faults.append(f"{name}: {error}")
        else:
            sound[name] = value
    return sound, faults


def check_value(name: str, value: str) -> None:
    """Check that a client may set a key to ``value``, or raise InvalidValueError.

    Kafka resolves clients' placeholders, with providers that the client also names. That would let
    a client read this machine's files.
    """
    if has_placeholder(value):
        raise InvalidValueError("a client cannot set a placeholder: set it in the file")
    key = KEYS_BY_NAME.get(name)
    if key is None:
        return
    parsed = key.parse(trim(value))
    if key.wire_minimum is not None and parsed < key.wire_minimum:
        raise InvalidValueError(
            f"{parsed} is below {key.wire_minimum}, the minimum that a client may set, since a"
            " smaller limit can lock everyone out; set it in the file"
        )


def get_type(name: str) -> ConfigType:
    """Return the type of a key's value."""
    if is_secret_ssl_key(name):
        return ConfigType.PASSWORD
    # As in Kafka, a listener's own key has the type of the general one.
    key = KEYS_BY_NAME.get(kafka_ssl_name(name) or name)
    return ConfigType.UNKNOWN if key is None else _type_of(key)


def _type_of(key: Key) -> ConfigType:
    parse = key.parse
    if isinstance(parse, IntegerParser):
        return ConfigType.INT if parse.maximum <= _INT_MAX else ConfigType.LONG
    if parse is boolean:
        return ConfigType.BOOLEAN
    if parse is secret_text:
        return ConfigType.PASSWORD
    return ConfigType.LIST if parse in _LISTS else ConfigType.STRING


def normalize_value(name: str, value: str) -> str:
    """Return a valid value as Kafka shows it. Numbers are parsed and written again."""
    key = KEYS_BY_NAME.get(name)
    if key is None or get_type(name) not in (ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG):
        return value
    # Kafka writes true and false in lower case.
    return str(key.parse(trim(value))).lower()


def is_secret(name: str) -> bool:
    """Return True if a key's value must not be shown. As in Kafka, unknown keys are secret."""
    if kafka_ssl_name(name) is not None:
        return is_secret_ssl_key(name)
    return name not in KEYS_BY_NAME or name.endswith(("sasl.jaas.config", ".password", ".secret"))
