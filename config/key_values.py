"""The separate value of every key, the place where it was set, and the faults of all keys.

**Invariant:** whether a value is valid here depends only on its key's parser, never on other keys.
A rule about several keys is skipped if it depends on a known fault: its result could only mislead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.key import OWN_PREFIX, Key
from authorizerd.config.keys import KEYS, KEYS_BY_NAME, find_meant_own_key, listener_prefix
from authorizerd.config.properties import Property
from authorizerd.config.values import trim

Value = TypeVar("Value")
Given = ParamSpec("Given")

_UNKNOWN: Final = object()
"""Stands for the value of a rule that has failed."""


class KnownFaultError(Exception):
    """A rule needs a value with a known fault."""


class _Values(dict[str, Any]):
    """The values of the table's keys, except for those that have a fault."""

    def __missing__(self, name: str) -> None:
        assert name in KEYS_BY_NAME, name
        raise KnownFaultError


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    """The values that rules over several keys use, and the faults that they have found.

    ``values`` has every key of the table, with the text's value, the default, or None. The value
    of an invalid key raises KnownFaultError.
    """

    source: str
    properties: Mapping[str, Property]
    values: Mapping[str, Any]
    faults: list[ConfigurationError] = field(default_factory=list)

    def refusal(self, key: str, reason: str) -> ConfigurationError:
        """Return an error that names a key and the place where it was set."""
        entry = self.properties.get(key)
        if entry is None:
            return ConfigurationError(self.source, None, key, reason)
        return refuse_property(entry, reason)

    def read(self, key: str, parse: Callable[[str], Value]) -> Value | None:
        """Return the value of a key that is not in the table, or None if it is not set.

        Raises:
            ConfigurationError: ``parse`` rejects its text.
        """
        entry = self.properties.get(key)
        return None if entry is None else _parsed(entry, parse)

    def read_own(self, listener_name: str, key: str, mechanism: str = "") -> Any:  # noqa: ANN401 - as the table's
        """Return the value of a listener's own key, or None. Its parser is the general key's."""
        own = f"{listener_prefix(listener_name)}{mechanism}{key}"
        return self.read(own, KEYS_BY_NAME[key].parse)

    def read_nearest(self, listener_name: str, mechanism: str, key: str) -> Any:  # noqa: ANN401 - as the table's
        """Return the value of a mechanism's own key, else the listener's, else the general one."""
        for part in (f"{mechanism.lower()}.", ""):
            value = self.read_own(listener_name, key, part)
            if value is not None:
                return value
        return self.values[key]

    def name_nearest(self, listener_name: str, mechanism: str, key: str) -> str:
        """Return the name of the key that ``read_nearest`` reads; by default, the general one."""
        prefix = listener_prefix(listener_name)
        names = (f"{prefix}{mechanism.lower()}.{key}", prefix + key)
        return next((name for name in names if name in self.properties), key)

    def refuse(self, key: str, reason: str) -> None:
        """Note a fault after which the rule can continue, unless the key is known to be invalid."""
        if key not in KEYS_BY_NAME or key in self.values:
            self.faults.append(self.refusal(key, reason))

    def attempt(
        self,
        rule: Callable[Concatenate[KeyValues, Given], Value],
        *arguments: Given.args,
        **named: Given.kwargs,
    ) -> Value:
        """Return what ``rule`` returns; note its fault if it raises one.

        After a fault, only pass the result to another rule by ``attempt``, which skips that rule.
        ``check`` raises the fault in the end.
        """
        if not any(value is _UNKNOWN for value in (*arguments, *named.values())):
            try:
                return rule(self, *arguments, **named)
            except ConfigurationError as fault:
                self.faults.append(fault)
            except KnownFaultError:
                pass
        return cast(Value, _UNKNOWN)

    def attempt_each(
        self, names: Iterable[str], rule: Callable[[KeyValues, str], Value]
    ) -> dict[str, Value]:
        """Return what ``rule`` returns for each name; note the faults of all of them.

        Raises:
            KnownFaultError: a rule has failed.
        """
        results = {name: self.attempt(rule, name) for name in names}
        if any(result is _UNKNOWN for result in results.values()):
            raise KnownFaultError
        return results

    def check(self) -> None:
        """Raise an error that names all faults, unless there are none.

        Raises:
            ConfigurationError: with at least one fault.
        """
        if self.faults:
            raise ConfigurationError.of_all(self.faults)


def read_key_values(properties: Mapping[str, Property], source: str) -> KeyValues:
    """Return the value of each key, and the faults of all keys that are invalid.

    A key with our prefix is a fault if it is unknown. If it resembles a key that is not set, that
    key has no value either.
    """
    values = _Values()
    keys = KeyValues(source=source, properties=properties, values=values)
    mistyped = set()
    for name in properties:
        if name.startswith(OWN_PREFIX) and name not in KEYS_BY_NAME:
            meant = find_meant_own_key(name)
            mistyped.add(meant)
            keys.refuse(name, _unknown_key_reason(meant))
    for key in KEYS:
        if key.name in properties:
            value = keys.attempt(_read_set_value, key)
            if value is not _UNKNOWN:
                values[key.name] = value
        elif key.name not in mistyped:
            values[key.name] = None if key.default is None else key.parse(key.default)
    return keys


def _unknown_key_reason(meant: str | None) -> str:
    if meant is not None:
        return f"unknown key; did you mean {meant}?"
    return f"unknown key: `authorizerd docs configuration` lists all that begin with {OWN_PREFIX}"


def _read_set_value(keys: KeyValues, key: Key) -> object:
    return _parsed(keys.properties[key.name], key.parse)


def _parsed(entry: Property, parse: Callable[[str], Value]) -> Value:
    try:
        return parse(trim(entry.value))
    except InvalidValueError as error:
        raise refuse_property(entry, str(error)) from None


def refuse_property(entry: Property, reason: str) -> ConfigurationError:
    """Return the error of a property. It shows no text that a provider gave."""
    # The fault of a JAAS line is described without quoting the line.
    if entry.is_provided and not entry.key.endswith("sasl.jaas.config"):
        reason = "the value from a provider is invalid (not shown, since it may be a secret)"
    return ConfigurationError(entry.source, entry.line, entry.key, reason)
