"""Plans for changes of dynamic configs: the keys that a request sets and removes, or why it is
rejected.

**Invariant:** making a plan changes nothing. A plan only sets values that are valid for their keys.

Work that grows with a request is done in steps. A plan itself is short, since few keys can change.

Source: KIP-133 (AlterConfigs), KIP-339 (IncrementalAlterConfigs); Kafka 4.3 ConfigAdminManager,
ConfigurationControlManager, DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from enum import IntEnum
from typing import Final

import msgspec

from authorizerd.config.dynamic import check_value, may_change
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.keys import KEYS_BY_NAME
from authorizerd.config.tls_keys import is_store_key, kafka_ssl_name

_NAMES_MAX: Final = 100
"""The maximum number of keys that an error names."""


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(msgspec.Struct, frozen=True, gc=False):
    """One requested change. ``operation`` is a raw int8."""

    name: str
    operation: int
    value: str | None


class AlterationError(Exception):
    """The error for a rejected request. The text is Kafka's own where Kafka has one."""


class InvalidConfigError(AlterationError):
    """An error that Kafka answers with INVALID_CONFIG."""


Changes = dict[str, str | None]
"""The new value of each key that changes, or None if the key is removed."""


class Wanted(msgspec.Struct, frozen=True):
    """The checked changes that a request wants for one resource.

    Each of ``values`` is valid, except those of keys that the caller may not set. ``removed`` are
    the keys to remove, or None for every key that is not in ``values``.
    """

    values: Mapping[str, str]
    removed: Set[str] | None

    @property
    def keys(self) -> Set[str]:
        """The keys that the request names."""
        return self.values.keys() | (self.removed or frozenset())


def check_alterations(alterations: Sequence[Alteration]) -> None:
    """Check that the request does not contradict itself."""
    names: set[str] = set()
    nulls: list[str] = []
    for alteration in alterations:
        names.add(alteration.name)
        if alteration.value is None and alteration.operation != AlterOperation.DELETE:
            nulls.append(alteration.name)
    if len(names) < len(alterations):
        raise AlterationError("Error due to duplicate config keys")
    if nulls:
        # Kafka's text also has a space before the colon.
        raise AlterationError(f"Null value not supported for : {', '.join(nulls[:_NAMES_MAX])}")


def want_incremental(
    alterations: Sequence[Alteration],
    plugged: frozenset[str],
    forbidden: Set[str] = frozenset(),
) -> Wanted:
    """Return the changes that ``alterations``, already checked, want for one resource.

    Args:
        plugged: the authorizer's own keys that can change while it runs.
        forbidden: keys that the caller may not set. Their values are not parsed, since a long list
            takes many milliseconds. The caller of this function rejects them.

    Raises:
        AlterationError: one of the changes is not allowed.
    """
    values: dict[str, str] = {}
    removed: set[str] = set()
    # Keep no reference to the error: its traceback refers to this frame, which would be a cycle.
    misfit = ""
    for alteration in alterations:
        name = alteration.name
        match alteration.operation:
            case AlterOperation.SET:
                # The value is never None here: ``check_alterations`` rejects null.
                values[name] = alteration.value or ""
            case AlterOperation.DELETE:
                removed.add(name)
            case AlterOperation.APPEND | AlterOperation.SUBTRACT as operation:
                # No key that may change is a list.
                misfit = misfit or _describe_misfit(name, AlterOperation(operation))
            case _:
                raise AlterationError(f"Unknown operations type {alteration.operation}")
    if misfit:  # after the loop: Kafka looks for unknown operations first
        raise InvalidConfigError(misfit)
    _check_values(values, plugged, forbidden)
    return Wanted(values, removed)


def _describe_misfit(name: str, operation: AlterOperation) -> str:
    if name not in KEYS_BY_NAME:
        return f"Unknown config name: {name}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def want_replacement(
    alterations: Sequence[Alteration],
    plugged: frozenset[str],
    forbidden: Set[str] = frozenset(),
) -> Wanted:
    """Return the changes that leave exactly ``alterations`` set for one resource.

    The arguments and errors are those of ``want_incremental``.
    """
    values: dict[str, str] = {}
    for alteration in alterations:
        values[alteration.name] = alteration.value or ""
    _check_values(values, plugged, forbidden)
    return Wanted(values, None)


def plan_changes(before: Mapping[str, str], wanted: Wanted) -> Changes:
    """Return the changes that ``wanted`` makes to one resource's dynamic configs.

    Raises:
        AlterationError: a key that cannot change would be removed.
    """
    changes: Changes = {
        name: None
        for name in before
        if name not in wanted.values and (wanted.removed is None or name in wanted.removed)
    }
    _refuse_fixed([name for name in changes if name in KEYS_BY_NAME and not _is_reloadable(name)])
    return changes | dict(wanted.values)


def _check_values(values: Mapping[str, str], plugged: frozenset[str], forbidden: Set[str]) -> None:
    fixed: list[str] = []
    unknown: list[str] = []
    for name in values:
        if not may_change(name, plugged):
            (fixed if name in KEYS_BY_NAME else unknown).append(name)
    _refuse_store_keys([name for name in (*fixed, *unknown) if is_store_key(name)])
    _refuse_fixed(fixed)
    if unknown:
        raise InvalidConfigError(
            f"Unknown config name: {_listed(unknown)}. It is not a key of the daemon, and the"
            " authorizer does not list it in reconfigurable_configs: set it in the file"
        )
    for name, value in values.items():
        if name in forbidden:
            continue
        try:
            check_value(name, value)
        except InvalidValueError as error:
            raise AlterationError(
                f"Invalid value {value} for configuration {name}: {error}"
            ) from None


def _refuse_store_keys(names: list[str]) -> None:
    if any(kafka_ssl_name(name) == name for name in names):
        raise AlterationError(
            "These security configs can be dynamically updated only per-listener using the listener"
            f" prefix: [{_listed(names)}]"
        )
    if names:
        raise AlterationError(
            f"No port of this node has TLS with these keys: [{_listed(names)}]. Expected"
            " listener.name.NAME. with the lower-case name of a listener with TLS, or"
            " authorizerd.http."
        )


def _refuse_fixed(names: list[str]) -> None:
    if names:
        raise AlterationError(f"Cannot update these configs dynamically: [{_listed(names)}]")


def _is_reloadable(name: str) -> bool:
    return KEYS_BY_NAME[name].reloadable


def _listed(names: list[str]) -> str:
    # Cut before sorting: a request may have very many names.
    return ", ".join(sorted(names[:_NAMES_MAX]))
