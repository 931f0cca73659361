"""Changes of dynamic configs, planned: what a request would set and take away, or why it may not.

Law: a plan is made against the configs before it and changes nothing by itself. Nothing is set
that its key would not take.

Source: KIP-133 (AlterConfigs), KIP-339 (IncrementalAlterConfigs); Kafka 4.3 ConfigAdminManager,
ConfigurationControlManager, DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import msgspec

from config.dynamic import check_value, may_change
from config.errors import InvalidValueError
from config.keys import KEYS_BY_NAME


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(msgspec.Struct, frozen=True, gc=False):
    """One change that is asked for; ``operation`` is a raw int8."""

    name: str
    operation: int
    value: str | None


class AlterationError(Exception):
    """A request that may not be done; the text is Kafka's where Kafka has one."""


class InvalidConfigError(AlterationError):
    """What Kafka answers INVALID_CONFIG."""


Changes = dict[str, str | None]
"""The new value of each key that changes, None where it is taken away."""


def check_alterations(alterations: Sequence[Alteration]) -> None:
    """Raise AlterationError where the request itself makes no sense."""
    names = [alteration.name for alteration in alterations]
    if len(set(names)) < len(names):
        raise AlterationError("Error due to duplicate config keys")
    nulls = [
        alteration.name
        for alteration in alterations
        if alteration.value is None and alteration.operation != AlterOperation.DELETE
    ]
    if nulls:
        raise AlterationError(f"Null value not supported for : {','.join(nulls)}")


def plan_incremental(before: Mapping[str, str], alterations: Iterable[Alteration]) -> Changes:
    """Return what ``alterations``, checked, change in one resource's dynamic configs.

    Raises:
        AlterationError: one of them may not be done.
    """
    changes: Changes = {}
    for alteration in alterations:
        name, value = alteration.name, alteration.value
        match alteration.operation:
            case AlterOperation.SET:
                changes[name] = value
            case AlterOperation.DELETE:
                if name in before:
                    changes[name] = None
            case AlterOperation.APPEND | AlterOperation.SUBTRACT as operation:
                what = AlterOperation(operation).name.lower()  # no key that may change is a list
                is_known = name in KEYS_BY_NAME
                raise InvalidConfigError(
                    f"Config value {what} is not allowed for config key: {name}"
                    if is_known
                    else f"Unknown config name: {name}"
                )
            case _:
                raise AlterationError(f"Unknown operations type {alteration.operation}")
    _check(changes)
    return changes


def plan_replacement(before: Mapping[str, str], configs: Mapping[str, str]) -> Changes:
    """Return what makes ``configs`` all that is set of one resource.

    Raises:
        AlterationError: one of them may not be set.
    """
    changes: Changes = dict.fromkeys(before.keys() - configs.keys())
    changes |= configs
    _check(changes)
    return changes


def _check(changes: Changes) -> None:
    fixed = sorted(name for name in changes if not may_change(name))
    if fixed:
        raise AlterationError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for name, value in changes.items():
        if value is None:
            continue
        try:
            check_value(name, value)
        except InvalidValueError as error:
            raise AlterationError(
                f"Invalid value {value} for configuration {name}: {error}"
            ) from None
