"""The user of a gateway's request, and the address of the client.

**Invariant:** a header that is repeated, or that has two readings, gives no user and no address.

Source: Envoy, "x-forwarded-client-cert"; Kafka 4.3 SslPrincipalMapper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import WILDCARD_PRINCIPAL
from authorizerd.acl.text.distinguished_names import is_certain, split_name, write_as_java
from authorizerd.config.errors import PrincipalMappingError
from authorizerd.config.principals.mapping import PrincipalMapping
from authorizerd.config.routes.errors import UNKNOWN_USER, RefusedRequestError
from authorizerd.config.routes.gateways import read_single

NAME, USER, CERTIFICATE = "name", "user", "certificate"
FORMATS: Final = (NAME, USER, CERTIFICATE)
DEFAULT_HEADER: Final = "X-Forwarded-User"
CERTIFICATE_HEADER: Final = "X-Forwarded-Client-Cert"
_USER: Final = "User:"

_TYPED: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*:.+", re.ASCII)
# A quote within a value would be escaped like a quote within the name: such names are refused.
_FIELD: Final = re.compile(r'([A-Za-z]+)=(?:"([^"]*)"|([^",;=\\]*))(;|\Z)', re.ASCII)

ReadPrincipal = Callable[[str], str]
"""Returns the principal of a header's value."""


def read_name(value: str) -> str:
    """Return a name without a type as a user, and ``Type:name`` as it is."""
    return _check_principal(value if _TYPED.fullmatch(value) else _USER + value)


def read_user(value: str) -> str:
    """Return a name as a user's, whatever it contains."""
    return _check_principal(_USER + value)


def read_certificate(value: str, mapping: PrincipalMapping) -> str:
    """Return the principal of the subject in an X-Forwarded-Client-Cert header."""
    parts = split_name(find_subject(value))
    # Java's text must be certain. The order of joined attributes is not.
    if not parts or not is_certain(parts) or any(part.is_joined for part in parts):
        raise RefusedRequestError("Kafka's text of the certificate's Subject is uncertain")
    try:
        return _check_principal(_USER + mapping.apply(write_as_java(parts)))
    except PrincipalMappingError as error:
        raise RefusedRequestError(str(error)) from error


def find_subject(value: str) -> str:
    """Return the Subject of an X-Forwarded-Client-Cert header with one certificate."""
    subject, position, has_more = None, 0, True
    while has_more:
        field = _FIELD.match(value, position)
        if field is None:
            raise RefusedRequestError(
                "expected one certificate in X-Forwarded-Client-Cert, as Envoy writes it with"
                " forward_client_cert_details SANITIZE_SET"
            )
        if field[1].lower() == "subject":
            if subject is not None:
                raise RefusedRequestError("X-Forwarded-Client-Cert has two Subjects")
            subject = field[2] or field[3] or ""
        position, has_more = field.end(), field[4] == ";"
    if not subject:
        raise RefusedRequestError(
            "X-Forwarded-Client-Cert has no Subject: let Envoy add it with"
            " set_current_client_cert_details"
        )
    return subject


def _check_principal(principal: str) -> str:
    if not principal.isprintable() or "\ufffd" in principal:
        raise RefusedRequestError("the user's name has characters that are not printable")
    if principal == WILDCARD_PRINCIPAL:
        raise RefusedRequestError(f"{WILDCARD_PRINCIPAL} means everyone, and is no user")
    return principal


class Identity:
    """Reads the user and the address from the headers of ``principal`` and ``host``.

    Args:
        form: one of ``FORMATS``.
        mapping: the rules of the form ``certificate``.
    """

    def __init__(
        self, *, principal: str, host: str, form: str = NAME, mapping: PrincipalMapping | None
    ) -> None:
        self.principal_header: Final = principal
        self.host_header: Final = host
        self._principal: Final = principal.lower().encode()
        self._host: Final = host.lower().encode()
        read: ReadPrincipal = read_user if form == USER else read_name
        if form == CERTIFICATE:
            assert mapping is not None
            read = partial(read_certificate, mapping=mapping)
        self._read: Final = read

    def read_principal(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the user's principal.

        Raises:
            RefusedRequestError: the header is absent (401), or names no principal.
        """
        value = headers.get(self._principal)
        if not value:
            raise RefusedRequestError(
                f"the user is unknown: the gateway sent no header {self.principal_header}",
                UNKNOWN_USER,
            )
        try:
            text = value.decode()
        except UnicodeDecodeError:
            raise RefusedRequestError(f"{self.principal_header} is not UTF-8") from None
        return self._read(text)

    def read_host(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the client's address as Kafka writes it."""
        text = read_single(headers, self.host_header, self._host)
        host = host_address(text)
        if host is None:
            raise RefusedRequestError(
                f"expected exactly one IP address in {self.host_header}, found '{text[:128]}'"
            )
        return host
