"""Report every fault of a server.properties text at once.

**Invariant:** a text that ``configuration.parse`` rejects has at least one fault here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.keys import KEYS_BY_NAME, unknown_key_reason
from authorizerd.config.own_keys import OWN_PREFIX
from authorizerd.config.properties import Property, parse_override, parse_properties
from authorizerd.config.values import trim


def parse_or_faults(
    text: str, *, source: str, overrides: Sequence[str] = ()
) -> Configuration | list[ConfigurationError]:
    """Return the configuration, or at least one fault, in the order of the file.

    Rules over several keys are checked only if every key is valid by itself, since an invalid key
    could make a valid one seem wrong. Only the first fault of these rules is reported.
    """
    faults: list[ConfigurationError] = []
    try:
        properties = parse_properties(text, source=source)
    except ConfigurationError as fault:
        return [fault]
    for override in overrides:
        try:
            overriding = parse_override(override)
        except ConfigurationError as fault:
            faults.append(fault)
        else:
            properties[overriding.key] = overriding
    faults += _find_key_faults(properties)
    if faults:
        # Overrides have no line, and come last.
        return sorted(faults, key=lambda fault: (fault.line is None, fault.line or 0))
    try:
        return parse(text, source=source, overrides=overrides)
    except ConfigurationError as fault:
        return [fault]


def _find_key_faults(properties: Mapping[str, Property]) -> list[ConfigurationError]:
    faults = []
    for name, place in properties.items():
        reason = _find_reason(name, place.value)
        if reason is not None:
            faults.append(ConfigurationError(place.source, place.line, name, reason))
    return faults


def _find_reason(name: str, value: str) -> str | None:
    key = KEYS_BY_NAME.get(name)
    if key is None:
        return unknown_key_reason(name) if name.startswith(OWN_PREFIX) else None
    try:
        key.parse(trim(value))
    except InvalidValueError as error:
        return str(error)
    return None
