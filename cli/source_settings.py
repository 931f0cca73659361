"""The settings that decisions depend on, each with its origin.

**Invariant:** a value that no source reports is shown as unknown, never as a default.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS, KnownSettings
from authorizerd.cli.errors import CommandError
from authorizerd.cli.flags import Refuse, add_text
from authorizerd.cli.profile import Profile
from authorizerd.config.configuration import Configuration
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.hints import find_hints
from authorizerd.config.values import STANDARD_AUTHORIZER, boolean, parse_principals

T = TypeVar("T")

SETTING_KEYS: Final = (SUPER_USERS, ALLOW_EVERYONE)
"""The keys that decisions depend on. Brokers are asked for their values."""

_DEFAULTS: Final = {SUPER_USERS: "", ALLOW_EVERYONE: "false"}
_FLAGS: Final = {
    SUPER_USERS: ("--super-users", parse_principals),
    ALLOW_EVERYONE: ("--allow-everyone-if-no-acl-found", boolean),
}
_NOT_TOLD: Final = "it is set, but the broker does not show its value"
USE_CONFIG: Final = "--config FILE for the daemon's settings, or"


class Origin(StrEnum):
    """Where the value of a setting comes from."""

    FLAG = "flag"
    FILE = "file"
    PROFILE = "profile"
    BROKER = "broker"
    UNKNOWN = "unknown"


class Setting(msgspec.Struct, frozen=True):
    """A setting that decisions depend on.

    Attributes:
        value: None if it is unknown.
        where: the flag, the file or the broker; for an unknown value, the reason or an empty text.
    """

    key: str
    value: str | None
    origin: Origin
    where: str = ""

    def __str__(self) -> str:
        """Return ``key=value (origin)``, or ``key unknown (reason)``."""
        shown = f"{self.key} unknown" if self.value is None else f"{self.key}={self.value}"
        return f"{shown} ({self.where})" if self.where else shown


def describe_settings(stated: tuple[Setting, ...], advice: str) -> str:
    """Return a line with each setting and its origin, and the flags for unknown settings.

    Args:
        advice: alternatives to these flags, or an empty text.
    """
    shown = f"with {', '.join(map(str, stated))}"
    flags = [_FLAGS[each.key][0] for each in stated if each.value is None]
    if not flags:
        return shown
    return f"{shown}; pass {' '.join(filter(None, (advice, ' and '.join(flags))))}"


def add_setting_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--super-users",
        metavar="LIST",
        help="super users as Type:name;Type:name, instead of those in --config or on the broker; "
        "an empty list means that there are none. Brokers do not show theirs",
    )
    text = (
        "the value of allow.everyone.if.no.acl.found, instead of that in --config or on the "
        "broker (true if no value follows). Brokers do not show theirs"
    )
    add_text(group, "--allow-everyone-if-no-acl-found", "true|false", text, nargs="?", const="true")


def check_authorizer(configuration: Configuration) -> None:
    """Check that decisions follow the rules of the built-in authorizer."""
    name = configuration.authorizer_class_name
    if name != STANDARD_AUTHORIZER:
        raise CommandError(
            f"authorizer.class.name: expected {STANDARD_AUTHORIZER}, found {name or 'no class'}: "
            "this command answers by the rules of the built-in authorizer"
        )


def check_flags(flags: Mapping[str, str | None], refuse: Refuse) -> None:
    for key, (flag, parse) in _FLAGS.items():
        text = flags[key]
        if text is not None:
            try:
                parse(text)
            except InvalidValueError as error:
                refuse(f"{flag}: {error}")


def read_file_settings(configuration: Configuration | None, path: str) -> Iterator[Setting]:
    """Yield each setting of a configuration. Without one, all are unknown."""
    for key in SETTING_KEYS:
        if configuration is None:
            yield Setting(key, None, Origin.UNKNOWN)
        else:
            value = configuration.file_values.get(key, _DEFAULTS[key])
            yield Setting(key, value, Origin.FILE, path)


def read_broker_settings(
    servers: str, told: Mapping[str, str | None], failure: str
) -> Iterator[Setting]:
    """Yield each setting of a broker. A key that the broker does not list has Kafka's default."""
    for key in SETTING_KEYS:
        value = told.get(key, _DEFAULTS[key])
        if failure:
            yield Setting(key, None, Origin.UNKNOWN, failure)
        elif value is None:
            yield Setting(key, None, Origin.UNKNOWN, _NOT_TOLD)
        else:
            yield Setting(key, value, Origin.BROKER, f"broker {servers}")


def apply_profile(profile: Profile | None, settings: Iterator[Setting]) -> Iterator[Setting]:
    """Yield the settings, with the profile's values for otherwise unknown ones."""
    for setting in settings:
        value = None if profile is None else profile.settings.get(setting.key)
        if profile is None or value is None or setting.value is not None:
            yield setting
        else:
            yield Setting(setting.key, value, Origin.PROFILE, f"profile {profile.path}")


def apply_flags(
    flags: Mapping[str, str | None], settings: Iterator[Setting]
) -> tuple[Setting, ...]:
    given = {
        key: Setting(key, value, Origin.FLAG, flag)
        for key, (flag, _) in _FLAGS.items()
        if (value := flags[key]) is not None
    }
    return tuple(given.get(setting.key, setting) for setting in settings)


def parse_settings(stated: tuple[Setting, ...]) -> KnownSettings:
    """Return the known settings. Flags and files are already validated."""
    values = {each.key: each for each in stated}
    return KnownSettings(
        super_users=_parse(values[SUPER_USERS], parse_principals),
        allow_everyone_if_no_acl_found=_parse(values[ALLOW_EVERYONE], boolean),
    )


def find_setting_hints(stated: tuple[Setting, ...]) -> Iterator[str]:
    """Yield a sentence for each value that is probably a mistake."""
    return find_hints({each.key: each.value for each in stated if each.value is not None})


def _parse(setting: Setting, parse: Callable[[str], T]) -> T | None:
    if setting.value is None:
        return None
    try:
        return parse(setting.value)
    except InvalidValueError as error:
        raise CommandError(f"{setting.where}: {setting.key}: {error}") from None
