"""Placeholders ``${provider:path:key}`` in properties, and Kafka's providers that resolve them.

**Invariant:** a placeholder becomes the text of its provider, once, or it is a ConfigurationError
that names the property, the provider, the path and the key. It is never taken literally, and no
error contains a provider's text.

Source: KIP-297, KIP-421; Kafka 4.4 AbstractConfig, ConfigTransformer, AllowedPaths,
FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.properties import Property, parse_properties

PROVIDERS: Final = "config.providers"
FILE_BYTES_MAX: Final = 1024 * 1024
"""The largest file that a provider reads, in bytes."""
VALUES_CHARACTERS_MAX: Final = 4 * FILE_BYTES_MAX
"""The maximum number of characters that replace placeholders in one configuration."""

# As in Kafka, but in linear time for each "${": Kafka's groups can match in several ways.
_PLACEHOLDER: Final = re.compile(r"\$\{(?P<provider>[^:}]*):(?:(?P<path>[^:}]*):)?(?P<key>[^}]*)\}")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_ALLOWED_PATHS: Final = "allowed.paths"
_ALLOW_LIST: Final = "allowlist.pattern"

Provider = Callable[[str, str], str | None]
"""Return the text of a path and a key, or None. Raises InvalidValueError."""


def has_placeholder(text: str) -> bool:
    """Return True if Kafka would ask a provider about a part of the text."""
    start = text.find("${")
    while start >= 0 and (end := text.find("}", start)) >= 0:  # linear: a client may send it
        if ":" in text[start:end]:
            return True
        start = text.find("${", end)
    return False


def is_placeholder(text: str) -> bool:
    """Return True if the whole text is one placeholder, so that it is not a secret itself."""
    return _PLACEHOLDER.fullmatch(text) is not None


def find_providers(text: str) -> set[str]:
    """Return the names of the providers that the placeholders of a text name."""
    return {match["provider"] for match in _PLACEHOLDER.finditer(text)}


def resolve_placeholders(properties: Mapping[str, Property]) -> dict[str, Property]:
    """Return the properties with their placeholders replaced. Blocks on files.

    Raises:
        ConfigurationError: providers are unusable, or placeholders have no value. Its ``faults``
            are all unusable providers, or if there are none, all placeholders without a value.
    """
    resolution = _Resolution(_read_providers(properties))
    faults: list[ConfigurationError] = []
    resolved: dict[str, Property] = {}
    for name, entry in properties.items():
        try:
            resolved[name] = resolution.resolve(entry)
        except InvalidValueError as error:
            faults.append(_fault(entry, str(error)))
    if faults:
        raise ConfigurationError.of_all(faults)
    return resolved


def is_provider_key(name: str) -> bool:
    """Return True if a key configures providers."""
    return name == PROVIDERS or name.startswith(f"{PROVIDERS}.")


def read_names(text: str) -> list[str]:
    """Return the names in a value of ``config.providers``. As in Kafka, blanks belong to them."""
    return [name for name in dict.fromkeys(text.split(",")) if name]


def list_provider_keys(properties: Mapping[str, Property], name: str) -> list[str]:
    """Return the keys of one provider that are set."""
    parameters = f"{PROVIDERS}.{name}.param."
    return [
        key
        for key in properties
        if key == f"{PROVIDERS}.{name}.class" or key.startswith(parameters)
    ]


def is_supported(properties: Mapping[str, Property], name: str) -> bool:
    """Return True if a provider is listed and has one of Kafka's three own classes."""
    listed = properties.get(PROVIDERS)
    entry = properties.get(f"{PROVIDERS}.{name}.class")
    is_listed = listed is not None and name in read_names(listed.value)
    return is_listed and entry is not None and entry.value in _CLASSES


class _Resolution:
    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self._characters_left = VALUES_CHARACTERS_MAX

    def resolve(self, entry: Property) -> Property:
        """Return the property with its placeholders replaced.

        Raises:
            InvalidValueError: a placeholder has no value, or may not be there.
        """
        if not has_placeholder(entry.value):
            return entry
        if is_provider_key(entry.key):
            raise InvalidValueError("expected no placeholder: no provider resolves this key")
        return replace(entry, value=_PLACEHOLDER.sub(self._look_up, entry.value), is_provided=True)

    def _look_up(self, match: re.Match[str]) -> str:
        name = match["provider"]
        provider = self._providers.get(name)
        if provider is None:
            if not self._providers:  # quote nothing: it may be a part of a password
                raise InvalidValueError(
                    f"found a placeholder, but no provider: set {PROVIDERS}, or put a text that"
                    " is meant literally into a file, and refer to it by FileConfigProvider"
                )
            names = ", ".join(f"'{name}'" for name in self._providers)
            raise InvalidValueError(f"no provider '{name}': {PROVIDERS} has {names}")
        try:
            value = provider(match["path"] or "", match["key"])
        except InvalidValueError as error:
            raise InvalidValueError(f"{match[0]}: {error}") from None
        if value is None:
            raise InvalidValueError(f"{match[0]}: the provider has no such key: add it there")
        self._characters_left -= len(value)
        if self._characters_left < 0:
            raise InvalidValueError(
                f"expected at most {VALUES_CHARACTERS_MAX} characters from all providers"
            )
        return value


def _read_providers(properties: Mapping[str, Property]) -> dict[str, Provider]:
    """Return the providers by name.

    Raises:
        ConfigurationError: at least one is unusable.
    """
    providers: dict[str, Provider] = {}
    faults = []
    listed = properties.get(PROVIDERS)
    for name in read_names(listed.value) if listed is not None else []:
        prefix = f"{PROVIDERS}.{name}."
        entry = properties.get(f"{prefix}class")
        if entry is None:
            assert listed is not None
            faults.append(_fault(listed, f"'{name}' has no class: set {prefix}class"))
        elif entry.value not in _CLASSES:
            expected = ", ".join(_CLASSES)
            reason = f"unsupported class: expected one of {expected}"
            faults.append(_fault(entry, reason))
        else:
            make, parameter = _CLASSES[entry.value]
            limit = properties.get(f"{prefix}param.{parameter}")
            try:
                providers[name] = make(None if limit is None else limit.value)
            except InvalidValueError as error:
                faults.append(_fault(limit or entry, str(error)))
    if faults:
        raise ConfigurationError.of_all(faults)
    return providers


def _fault(entry: Property, reason: str) -> ConfigurationError:
    return ConfigurationError(entry.source, entry.line, entry.key, reason)


@dataclass(frozen=True, slots=True)
class _AllowedPaths:
    """The real paths of files and folders that a provider may read; None allows all."""

    paths: tuple[str, ...] | None

    @staticmethod
    def parse(text: str | None) -> _AllowedPaths:
        if not text:
            return _AllowedPaths(None)
        paths = []
        for name in text.rstrip(",").split(",") if text.strip(",") else ():
            if not name.startswith("/"):
                raise InvalidValueError(f"expected absolute paths, found '{name}'")
            try:
                paths.append(os.path.realpath(name, strict=True))
            except (OSError, ValueError) as error:
                raise InvalidValueError(f"{name}: {_reason(error)}") from None
        return _AllowedPaths(tuple(paths))

    def check(self, path: str) -> str:
        """Return the path to open.

        Raises:
            InvalidValueError: the path is not allowed, or leads nowhere.
        """
        if self.paths is None:
            return path
        try:
            real = os.path.realpath(path, strict=True)
        except (OSError, ValueError) as error:
            raise InvalidValueError(_reason(error)) from None
        if not any(os.path.commonpath((real, allowed)) == allowed for allowed in self.paths):
            raise InvalidValueError(f"{_ALLOWED_PATHS} does not allow {real}")
        return real


def _new_file_provider(limit: str | None) -> Provider:
    allowed = _AllowedPaths.parse(limit)

    @cache  # so that all keys of a file come from one reading
    def read(path: str) -> Mapping[str, Property]:
        try:
            return parse_properties(_read_text(allowed.check(path)), source=path)
        except ConfigurationError as error:
            raise InvalidValueError(f"line {error.line}: {error.reason}") from None

    def get(path: str, key: str) -> str | None:
        value = read(path).get(key) if path else None
        return None if value is None else value.value

    return get


def _new_directory_provider(limit: str | None) -> Provider:
    allowed = _AllowedPaths.parse(limit)

    def get(path: str, key: str) -> str | None:
        if not path or "/" in key or key in ("", ".", ".."):
            return None
        return _read_text(os.path.join(allowed.check(path), key))

    return get


def _new_environment_provider(limit: str | None) -> Provider:
    pattern = None
    if limit is not None:
        from authorizerd.config.java_regex.translation import translate  # slow to import

        pattern = translate(limit).pattern

    def get(path: str, key: str) -> str | None:
        if path:
            raise InvalidValueError("EnvVarConfigProvider has no paths: write ${provider:NAME}")
        if pattern is not None and pattern.fullmatch(key) is None:
            raise InvalidValueError(f"{_ALLOW_LIST} does not allow this variable")
        value = os.environ.get(key)
        if value is None:
            raise InvalidValueError("this variable is not set in the environment of this program")
        if not value.isprintable():
            _check_utf_8(value)
        return value

    return get


_CLASSES: Final[Mapping[str, tuple[Callable[[str | None], Provider], str]]] = {
    f"{_PACKAGE}FileConfigProvider": (_new_file_provider, _ALLOWED_PATHS),
    f"{_PACKAGE}DirectoryConfigProvider": (_new_directory_provider, _ALLOWED_PATHS),
    f"{_PACKAGE}EnvVarConfigProvider": (_new_environment_provider, _ALLOW_LIST),
}
"""Kafka's own providers: how to create each, and the parameter that limits it."""


def _check_utf_8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValueError("expected UTF-8") from None


def _read_text(path: str) -> str:
    try:
        # Without O_NONBLOCK, a named pipe would block the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidValueError("expected a regular file")
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise InvalidValueError(f"expected at most {FILE_BYTES_MAX} bytes, found more")
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidValueError("expected UTF-8") from None
    except (OSError, ValueError) as error:
        raise InvalidValueError(_reason(error)) from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
