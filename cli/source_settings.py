"""The settings that decisions depend on, each with its origin.

**Invariant:** a value that is not known is assumed to be Kafka's default, and said to be.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.config.configuration import Configuration
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.values import STANDARD_AUTHORIZER, boolean, super_users
from authorizerd.daemon.errors import StartError

T = TypeVar("T")

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
SETTING_KEYS: Final = (SUPER_USERS, ALLOW_EVERYONE)
"""The keys that decisions depend on. A broker's values for them are asked for."""

_DEFAULTS: Final = {SUPER_USERS: "", ALLOW_EVERYONE: "false"}
_NOT_TOLD: Final = "it is set, but the broker does not show its value"
USE_CONFIG: Final = "pass --config FILE to use the daemon's settings"
USE_FLAGS: Final = "pass --super-users or --allow-everyone-if-no-acl-found if they are set"


class Origin(StrEnum):
    """Where the value of a setting comes from."""

    FLAG = "flag"
    FILE = "file"
    BROKER = "broker"
    ASSUMED = "assumed"


class Setting(msgspec.Struct, frozen=True):
    """A setting that decisions depend on.

    Attributes:
        where: the flag, the file or the broker; if the value is assumed, why, or an empty text.
    """

    key: str
    value: str
    origin: Origin
    where: str = ""

    def __str__(self) -> str:
        """Return ``key=value (origin)``."""
        shown = self.where
        if self.origin is Origin.ASSUMED:
            shown = f"assumed: {self.where}" if self.where else "assumed"
        return f"{self.key}={self.value} ({shown})"


def is_known(stated: tuple[Setting, ...], key: str) -> bool:
    """Return True if the value of a setting is not only assumed."""
    return any(each.key == key and each.origin is not Origin.ASSUMED for each in stated)


def describe_settings(stated: tuple[Setting, ...], advice: str) -> str:
    """Return a line with each setting and its origin.

    Args:
        advice: what to do if a value is assumed.
    """
    shown = ", ".join(map(str, stated))
    if any(each.origin is Origin.ASSUMED for each in stated):
        return f"with {shown}; {advice}"
    return f"with {shown}"


def add_setting_arguments(group: argparse._ArgumentGroup) -> None:
    """Add a flag for each setting. ``apply_flags`` reads them."""
    group.add_argument(
        "--super-users",
        metavar="LIST",
        help="super users as Type:name;Type:name, instead of those in --config or on the broker",
    )
    group.add_argument(
        "--allow-everyone-if-no-acl-found",
        action="store_true",
        help="answer as if allow.everyone.if.no.acl.found were true",
    )


def check_authorizer(configuration: Configuration) -> None:
    """Check that decisions follow the rules of the built-in authorizer.

    Raises:
        StartError: the configuration has another one, or none.
    """
    name = configuration.authorizer_class_name
    if name != STANDARD_AUTHORIZER:
        raise StartError(
            f"authorizer.class.name: expected {STANDARD_AUTHORIZER}, found {name or 'no class'}: "
            "this command answers by the rules of the built-in authorizer"
        )


def check_super_users(text: str | None) -> None:
    """Check the value of ``--super-users``.

    Raises:
        InvalidValueError: it is invalid.
    """
    if text is not None:
        super_users(text)


def read_file_settings(configuration: Configuration | None, path: str) -> Iterator[Setting]:
    """Yield each setting of a configuration, or what is assumed without one.

    Args:
        path: the configuration's file.
    """
    for key in SETTING_KEYS:
        if configuration is None:
            yield Setting(key, _DEFAULTS[key], Origin.ASSUMED)
        else:
            value = configuration.file_values.get(key, _DEFAULTS[key])
            yield Setting(key, value, Origin.FILE, path)


def read_broker_settings(
    servers: str, told: Mapping[str, str | None], failure: str
) -> Iterator[Setting]:
    """Yield each setting of a broker. A key that it does not list has Kafka's default there.

    Args:
        told, failure: see ``acl_source.BrokerAnswer``.
    """
    for key in SETTING_KEYS:
        value = told.get(key, _DEFAULTS[key])
        if failure:
            yield Setting(key, _DEFAULTS[key], Origin.ASSUMED, failure)
        elif value is None:
            yield Setting(key, _DEFAULTS[key], Origin.ASSUMED, _NOT_TOLD)
        else:
            yield Setting(key, value, Origin.BROKER, f"broker {servers}")


def apply_flags(arguments: argparse.Namespace, settings: Iterator[Setting]) -> tuple[Setting, ...]:
    """Return the settings, where each flag that is given takes precedence."""
    given: dict[str, Setting] = {}
    if arguments.super_users is not None:
        given[SUPER_USERS] = Setting(
            SUPER_USERS, arguments.super_users, Origin.FLAG, "--super-users"
        )
    if arguments.allow_everyone_if_no_acl_found:
        flag = "--allow-everyone-if-no-acl-found"
        given[ALLOW_EVERYONE] = Setting(ALLOW_EVERYONE, "true", Origin.FLAG, flag)
    return tuple(given.get(each.key, each) for each in settings)


def parse_settings(stated: tuple[Setting, ...]) -> AuthorizerSettings:
    """Return the settings as decisions use them. Flags and files have been validated before.

    Raises:
        StartError: a broker's value is invalid.
    """
    values = {each.key: each for each in stated}
    return AuthorizerSettings(
        super_users=_parse(values[SUPER_USERS], super_users),
        allow_everyone_if_no_acl_found=_parse(values[ALLOW_EVERYONE], boolean),
    )


def _parse(setting: Setting, parse: Callable[[str], T]) -> T:
    try:
        return parse(setting.value)
    except InvalidValueError as error:
        raise StartError(f"{setting.where}: {setting.key}: {error}") from None
