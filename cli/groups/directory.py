"""Read a directory's groups and people by LDAP, with the library python-ldap. Blocks.

**Invariant:** an answer is used only if it is whole. A limit of the server, a referral, a page that
the server does not continue, and a time-out are errors. The certificate of the server is always
checked, whatever the system's ldap.conf says.

Source: RFC 4511 (LDAP), RFC 2696 (pages).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from authorizerd.cli.errors import CommandError
from authorizerd.management.groups.directory import Entry, NameKey, read_direct_members
from authorizerd.management.groups.errors import GroupsError, Kind
from authorizerd.management.groups.file import LdapSettings, Place

try:
    import ldap
    import ldap.dn
    from ldap.controls import SimplePagedResultsControl
    from ldap.ldapobject import SimpleLDAPObject
except ImportError as error:
    reason = "groups of a directory need the library python-ldap: install authorizerd[ldap]"
    raise CommandError(reason) from error

_PARTIAL: Final = (
    *(ldap.SIZELIMIT_EXCEEDED, ldap.TIMELIMIT_EXCEEDED, ldap.ADMINLIMIT_EXCEEDED),
    *(ldap.PARTIAL_RESULTS, ldap.REFERRAL, ldap.REFERRAL_LIMIT_EXCEEDED),
)
_INVALID: Final = (
    *(ldap.FILTER_ERROR, ldap.INSUFFICIENT_ACCESS, ldap.INVALID_CREDENTIALS),
    *(ldap.INVALID_DN_SYNTAX, ldap.NO_SUCH_OBJECT),
)


def read_directory(settings: LdapSettings, names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the direct members of these groups, and of the groups within them.

    Raises:
        GroupsError: the directory did not give all that was asked for, or an entry has an error.
    """
    _, attribute, _ = settings.principal_parts
    session = _Session(settings)
    try:
        session.bind()
        groups = list(session.search(settings.groups, [settings.name, settings.member]))
        people = list(session.search(settings.people, [attribute])) if settings.people else []
    except ldap.LDAPError as error:
        raise GroupsError(settings.url, _describe(error), _kind_of(error)) from error
    finally:
        session.close()
    return read_direct_members(settings, groups, people, names, parse_name)


def parse_name(name: str) -> NameKey:
    """Return the key of a distinguished name: letter case, escapes and order do not matter."""
    try:
        parts = ldap.dn.str2dn(name, flags=ldap.DN_FORMAT_LDAPV3)
    except ldap.DECODING_ERROR:
        raise ValueError(name) from None
    if not parts:
        raise ValueError(name)
    return tuple(
        tuple(sorted((kind.lower(), " ".join(value.lower().split())) for kind, value, _ in part))
        for part in parts
    )


class _Session:
    """One connection, which may take ``timeout_seconds`` in all."""

    def __init__(self, settings: LdapSettings) -> None:
        self._settings = settings
        self._end = time.monotonic() + settings.timeout_seconds
        # The library would not say which file is missing.
        for path in (settings.ca, settings.certificate):
            _read(path)
        _read(settings.key, is_secret=True)
        self._connection = SimpleLDAPObject(settings.url)
        options = {
            ldap.OPT_PROTOCOL_VERSION: ldap.VERSION3,
            ldap.OPT_REFERRALS: 0,
            ldap.OPT_DEREF: ldap.DEREF_NEVER,
            ldap.OPT_NETWORK_TIMEOUT: settings.timeout_seconds,
            ldap.OPT_TIMEOUT: settings.timeout_seconds,
            ldap.OPT_X_TLS_REQUIRE_CERT: ldap.OPT_X_TLS_DEMAND,
            ldap.OPT_X_TLS_CACERTFILE: settings.ca,
            ldap.OPT_X_TLS_CERTFILE: settings.certificate,
            ldap.OPT_X_TLS_KEYFILE: settings.key,
            ldap.OPT_X_TLS_NEWCTX: 0,  # the last one: it makes the others effective
        }
        for option, value in options.items():
            if value is not None:
                self._connection.set_option(option, value)

    def bind(self) -> None:
        settings = self._settings
        if settings.password_file is None:
            self._connection.sasl_external_bind_s()
            return
        password = _read(settings.password_file, is_secret=True).decode().rstrip("\r\n")
        if not password:  # LDAP would take it for an anonymous client
            raise GroupsError(settings.password_file, "expected a password, found an empty file")
        self._connection.simple_bind_s(settings.bind_dn, password)

    def search(self, place: Place, attributes: list[str]) -> Iterator[Entry]:
        """Yield the entries of a place, page by page."""
        page = SimplePagedResultsControl(True, self._settings.page_size, b"")
        count = 0
        while True:
            found, page.cookie = self._read_page(place, attributes, page)
            for name, values in found:
                if name is None:
                    reason = f"a part of it is elsewhere, at {values[0]}: name that server or base"
                    raise GroupsError(place.base, reason, "partial")
                count += sum(map(len, values.values()))
                if count > self._settings.values_max:
                    reason = (
                        f"more than {self._settings.values_max:,} values: narrow base or filter"
                    )
                    raise GroupsError(
                        f"{place.base} {place.filter}", f"{reason}, or raise values_max"
                    )
                yield Entry(name, values)
            if not page.cookie:
                return

    def _read_page(
        self, place: Place, attributes: list[str], page: SimplePagedResultsControl
    ) -> tuple[list[Any], bytes]:
        left = self._end - time.monotonic()
        if left <= 0:
            raise ldap.TIMEOUT
        request = self._connection.search_ext(
            place.base, ldap.SCOPE_SUBTREE, place.filter, attributes, serverctrls=[page]
        )
        _, found, _, controls = self._connection.result3(request, timeout=left)
        for control in controls:
            if control.controlType == page.controlType:
                return found, control.cookie
        raise GroupsError(self._settings.url, "the server does not read page by page", "partial")

    def close(self) -> None:
        with suppress(ldap.LDAPError):  # it never connected, or the server has gone
            self._connection.unbind_ext_s()


def _read(path: str | None, *, is_secret: bool = False) -> bytes:
    if path is None:
        return b""
    try:
        with Path(path).open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read()
    except OSError as error:
        raise GroupsError(path, error.strerror or str(error)) from error
    if is_secret and mode & stat.S_IRWXO:
        raise GroupsError(path, f"everybody may use this secret: run chmod o= {path}")
    return data


def _kind_of(error: ldap.LDAPError) -> Kind:
    if isinstance(error, _PARTIAL):
        return "partial"
    return "invalid" if isinstance(error, _INVALID) else "away"


def _describe(error: ldap.LDAPError) -> str:
    details = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    words = [
        details.get("desc") or type(error).__name__,
        details.get("info"),
        details.get("matched"),
    ]
    return ", ".join(str(word) for word in words if word)
