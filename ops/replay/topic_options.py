"""Read the client properties that a job connects to a topic with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.jaas import parse_login
from authorizerd.config.properties import parse_properties
from authorizerd.config.providers import resolve_placeholders
from authorizerd.replay.options import PathError

_KEYS: Final = ("security.", "sasl.", "ssl.")
"""Prefixes of the keys that are used; as with ``acls --command-config``, others are ignored."""
_JAAS: Final = "sasl.jaas.config"


def read_client_settings(command_config: Path | None) -> dict[str, str]:
    """Return the properties for TLS and authentication; without a file, there are none.

    Raises:
        PathError: the file cannot be read, or is not a properties file.
    """
    if command_config is None:
        return {}
    try:
        text = command_config.read_text(encoding="iso-8859-1")
        properties = resolve_placeholders(parse_properties(text, source=str(command_config)))
    except OSError as error:
        raise PathError(f"--command-config: {command_config}: {error.strerror}") from error
    except ConfigurationError as error:
        raise PathError(f"--command-config: {error}") from error
    settings = {key: each.value for key, each in properties.items() if key.startswith(_KEYS)}
    if _JAAS in settings:
        # Java's own error would quote a word of the text, which may be the password.
        try:
            parse_login(settings[_JAAS])
        except InvalidValueError as error:
            raise PathError(f"--command-config: {command_config}: {_JAAS}: {error}") from None
    return settings
