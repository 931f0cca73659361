"""The profile: the cluster that commands ask if no flag names one.

``AUTHORIZERD_PROFILE`` names it: a path with a ``/``, or the name of a file in
``~/.config/authorizerd``. The file is a file for ``--command-config`` that also has
``bootstrap.servers``. ``super.users`` and ``allow.everyone.if.no.acl.found`` give settings that the
brokers do not show.

**Invariant:** a profile is used as a whole, or not at all: its password is never sent to a server
that a flag names. A file with a secret is read only if its owner alone has access to it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from authorizerd.cli.errors import CommandError
from authorizerd.config.properties import parse_properties
from authorizerd.config.providers import resolve_placeholders

Request = TypeVar("Request", bound=msgspec.Struct)

VARIABLE: Final = "AUTHORIZERD_PROFILE"
SERVERS: Final = "bootstrap.servers"
CONTROLLERS: Final = "bootstrap.controllers"
MODE: Final = 0o600
HELP: Final = f"Without it, the profile that {VARIABLE} names"

_SETTINGS: Final[tuple[str, ...]] = ("super.users", "allow.everyone.if.no.acl.found")
_BYTES_MAX: Final = 1024 * 1024
_SECRETS: Final = ("sasl.jaas.config", ".password", ".secret", "ssl.keystore.key")
"""A key whose name ends with one of these has a secret value."""


class Profile(NamedTuple):
    """The addresses in a profile: those of brokers, or of controllers.

    ``settings`` has the authorizer's settings that the profile states, as text.
    """

    path: Path
    key: str
    servers: str
    settings: Mapping[str, str]


def find_profile() -> Path | None:
    """Return the path of the profile's file, or None if the environment names none."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    if os.sep in name:
        return Path(name)
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder, "authorizerd", f"{name}.properties")


def read_profile() -> Profile | None:
    """Return the profile, or None if the environment names none. Blocks on the file."""
    path = find_profile()
    if path is None:
        return None
    place = f"{VARIABLE}: {path}"
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise CommandError(f"{place}: {error.strerror or error}") from error
    if len(data) > _BYTES_MAX:
        raise CommandError(f"{place}: expected at most {_BYTES_MAX} bytes, found more")
    properties = parse_properties(data.decode("iso-8859-1"), source=str(path))
    secret = next((key for key in properties if key.endswith(_SECRETS)), None)
    if secret is not None and mode & ~MODE:
        raise CommandError(
            f"{place}: expected mode {MODE:04o}, because {secret} is a secret, found {mode:04o}: "
            f"run chmod {MODE:o} {path}"
        )
    properties = resolve_placeholders(properties)
    named = [key for key in (SERVERS, CONTROLLERS) if key in properties]
    if len(named) != 1:
        found = "both" if named else "neither"
        raise CommandError(f"{place}: expected either {SERVERS} or {CONTROLLERS}, found {found}")
    settings = {key: properties[key].value.strip() for key in _SETTINGS if key in properties}
    return Profile(path, named[0], properties[named[0]].value, settings)


def use_profile(request: Request, *places: str) -> tuple[Request, Profile | None]:
    """Return the request completed with the profile's servers and file, and the profile.

    If the request already has servers or a file, or the environment names no profile, the request
    is unchanged and the profile is None.

    Args:
        request: has the fields ``bootstrap_server`` and ``command_config``.
        places: other fields that name a source of ACLs. If one is set, nothing changes.
    """
    names = ("bootstrap_server", "command_config", *places)
    if any(getattr(request, name) is not None for name in names):
        return request, None
    profile = read_profile()
    if profile is None:
        return request, None
    if profile.key != SERVERS:
        raise CommandError(
            f"{VARIABLE}: {profile.path}: expected {SERVERS}, found {CONTROLLERS}, which only "
            "authorizerd acls --list, --add and --remove can use"
        )
    fields = {"bootstrap_server": profile.servers, "command_config": str(profile.path)}
    return msgspec.structs.replace(request, **fields), profile


def name_servers(servers: str, command_config: str | None) -> str:
    """Return the prefix of errors about a connection: the flag or the profile."""
    if command_config is not None and command_config == str(find_profile()):
        return f"{VARIABLE}: {command_config}: {servers}"
    return f"--bootstrap-server {servers}"
