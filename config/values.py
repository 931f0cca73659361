"""Parsers that turn one text into one typed value. The table of keys names them.

**Invariant:** a parser returns a value within its bounds or raises InvalidValueError with the
reason. Its text is trimmed by Java's rules, so that names compare as they do in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import ResourceType
from authorizerd.acl.releases import Release
from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.config.errors import InvalidValueError

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER_AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)

PLAIN = "PLAIN"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
SASL_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
"""The mechanisms of listeners."""
CLIENT_MECHANISMS = (*SASL_MECHANISMS, GSSAPI)
"""The mechanisms with which the daemon logs in to a cluster."""

_BLANKS = "".join(map(chr, range(0x21)))  # those that java.lang.String.trim removes
_BASE_URL = re.compile(
    r"https?://(?:[\w.~%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[\w.~%-]+)*", re.ASCII
)
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")  # int() would accept other digits, `_`, and any length


class SecurityProtocol(StrEnum):
    """How a listener's connections are encrypted and authenticated."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


SASL_PROTOCOLS = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
TLS_PROTOCOLS = (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)


def protocol_of(*, has_tls: bool, has_log_in: bool) -> SecurityProtocol:
    """Return the protocol of connections with or without TLS and SASL authentication."""
    if has_log_in:
        return SecurityProtocol.SASL_SSL if has_tls else SecurityProtocol.SASL_PLAINTEXT
    return SecurityProtocol.SSL if has_tls else SecurityProtocol.PLAINTEXT


class LogLevel(StrEnum):
    """The daemon's log levels, by Python's names."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class KafkaRelease(StrEnum):
    """The Kafka release by whose rules ACLs are judged."""

    AUTO = "auto"
    KAFKA_4_3 = Release.KAFKA_4_3.value
    KAFKA_4_4 = Release.KAFKA_4_4.value

    @property
    def chosen(self) -> Release | None:
        """The release; None to detect it."""
        return None if self is KafkaRelease.AUTO else Release(self.value)


class UnknownRelease(StrEnum):
    """What happens while a Kafka release is in use that is newer than those tested."""

    WARN = "warn"
    STOP = "stop"


class LogFormat(StrEnum):
    """The format of the daemon's log lines."""

    TEXT = "text"
    JSON = "json"


class AuditFormat(StrEnum):
    """The format of audit lines."""

    KAFKA = "kafka"
    JSON = "json"


Choice = TypeVar("Choice", bound=StrEnum)


def trim(text: str) -> str:
    """Return ``text`` trimmed as by String.trim. As in Kafka, a no-break space at an end stays."""
    return text.strip(_BLANKS)


def invalid(text: str, expected: str, *, what: str = "") -> InvalidValueError:
    """Return the error for a value, or for a part of one, that is not as expected."""
    if what:
        return InvalidValueError(f"invalid {what} '{text}': expected {expected}")
    shown = f"'{text}'" if text else "an empty value"
    return InvalidValueError(f"expected {expected}, found {shown}")


# A class, not a closure, because ``config.dynamic`` gets a key's type from the bounds.
@dataclass(frozen=True, slots=True)
class IntegerParser:
    """The parser of decimal integers from ``minimum`` to ``maximum``, both included."""

    minimum: int
    maximum: int

    def __call__(self, text: str) -> int:
        if _INTEGER.fullmatch(text) and self.minimum <= int(text) <= self.maximum:
            return int(text)
        raise invalid(text, f"an integer from {self.minimum} to {self.maximum}")


def boolean(text: str) -> bool:
    """Return the value of ``true`` or ``false`` in any case. Kafka reads anything else as false."""
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise invalid(text, "true or false")


def choice(choices: type[Choice]) -> Callable[[str], Choice]:
    """Return a parser that accepts exactly the values of ``choices``."""

    def parse(text: str) -> Choice:
        try:
            return choices(text)
        except ValueError:
            raise invalid(text, f"one of {', '.join(choices)}") from None

    return parse


def parse_audit_level(text: str) -> AuditLevel:
    """Return the level of the audit log with exactly this name."""
    level = AuditLevel.__members__.get(text)
    if level is None:
        raise invalid(text, f"one of {', '.join(reversed(AuditLevel.__members__))}")
    return level


def sasl_mechanisms(text: str) -> tuple[str, ...]:
    """Return the mechanisms of a comma list, each once. All must be supported."""
    mechanisms = dict.fromkeys(some_words(text))
    supported = ", ".join(SASL_MECHANISMS)
    for mechanism in mechanisms:
        if mechanism == GSSAPI:
            reason = f"listeners do not support {mechanism}: use one or more of {supported}"
            raise InvalidValueError(reason)
        if mechanism not in SASL_MECHANISMS:
            raise invalid(mechanism, f"one of {supported}", what="SASL mechanism")
    return tuple(mechanisms)


def path(text: str) -> str:
    """Return a path that the operating system can open."""
    if not text:
        raise invalid(text, "a path")
    if "\0" in text:
        raise invalid(text, "a path without NUL characters")
    return text


def base_url(text: str) -> str:
    """Return a URL to which paths can be appended, or an empty text."""
    if text and not _BASE_URL.fullmatch(text):
        shape = (
            "https://HOST[:PORT][/PATH] or http://HOST[:PORT][/PATH], without a slash at its end"
        )
        raise invalid(text, shape)
    return text


def words(text: str) -> tuple[str, ...]:
    """Return the entries of a comma list, trimmed; an empty text has none.

    Source: Kafka 4.3 ConfigDef, ValidList.anyNonDuplicateValues.
    """
    if not text:
        return ()
    entries = tuple(trim(entry) for entry in text.split(","))
    if "" in entries:
        raise InvalidValueError(
            f"entry {entries.index('') + 1} of the comma-separated list is empty"
        )
    return entries


def some_words(text: str) -> tuple[str, ...]:
    """Return the entries of a comma list that has at least one."""
    if not text:
        raise invalid(text, "at least one entry")
    return words(text)


def paths(text: str) -> tuple[str, ...]:
    """Return the paths of a comma list that has at least one."""
    return tuple(path(entry) for entry in some_words(text))


def parse_principals(text: str) -> frozenset[str]:
    """Return the principals of a semicolon list. Names may contain commas and colons.

    Source: Kafka 4.3 StandardAuthorizer.getConfiguredSuperUsers.
    """
    principals = frozenset(filter(None, map(trim, text.split(";"))))
    # Sort, so that the same fault is reported each time if there are several.
    for principal in sorted(principals):
        principal_type, _, name = principal.partition(":")
        if not (principal_type and name):
            raise invalid(principal, "Type:name (semicolons separate the entries)", what="entry")
    return principals


def address_limits(text: str) -> Mapping[str, int]:
    """Parse ``address:number`` pairs; an IPv6 address needs no brackets.

    Source: Kafka 4.3 SocketServerConfigs.MAX_CONNECTIONS_PER_IP_OVERRIDES_CONFIG.
    """
    limits: dict[str, int] = {}
    for pair in filter(None, map(trim, text.split(","))):
        host, _, number = pair.rpartition(":")
        address = host_address(host.removeprefix("[").removesuffix("]"))
        if address is None:
            raise invalid(pair, "ADDRESS:NUMBER, such as 10.0.0.1:100", what="entry")
        limits[address] = IntegerParser(1, INT32_MAX)(number)
    return MappingProxyType(limits)


def authorizer_class(text: str) -> str:
    """Return the name of the built-in class or of a Python class. It may be empty."""
    if text in ZOOKEEPER_AUTHORIZERS:
        raise InvalidValueError(f"{text} requires ZooKeeper: use {STANDARD_AUTHORIZER} instead")
    words = text.split(".")
    if text and not (len(words) > 1 and all(map(str.isidentifier, words))):
        raise invalid(text, "module.Class")
    return text


def reject(reason: str, *, unless_empty: bool = False) -> Callable[[str], None]:
    """Return a parser that rejects the key."""

    def parse(text: str) -> None:
        if text or not unless_empty:
            raise InvalidValueError(reason)

    return parse


def security_protocols(text: str) -> Mapping[str, SecurityProtocol]:
    """Return the security protocol of each listener name, both upper-cased as Kafka does it."""
    protocols = {}
    for name, protocol in _pairs(text, ":", "NAME:PROTOCOL"):
        if name.upper() in protocols:
            raise InvalidValueError(f"{name.upper()} is mapped twice")
        protocols[name.upper()] = choice(SecurityProtocol)(protocol.upper())
    return MappingProxyType(protocols)


def subject_types(text: str) -> Mapping[str, str]:
    """Return Kafka's principal type for each AuthZEN subject type, both exactly as written."""
    types: dict[str, str] = {}
    for subject_type, principal_type in _some_pairs(text, "type=PrincipalType"):
        if subject_type in types:
            raise InvalidValueError(f"{subject_type} is mapped twice")
        if ":" in principal_type:
            raise invalid(principal_type, "no colon", what="principal type")
        types[subject_type] = principal_type
    return MappingProxyType(types)


def resource_types(text: str) -> Mapping[str, ResourceType]:
    """Return Kafka's resource type for each AuthZEN resource type. Names become lower-case."""
    types: dict[str, ResourceType] = {}
    for name, kafka_name in _some_pairs(text, "type=RESOURCE_TYPE"):
        if ascii_lower(name) in types:
            raise InvalidValueError(f"{ascii_lower(name)} is mapped twice")
        if kafka_name not in RESOURCE_TYPES:
            raise invalid(kafka_name, f"one of {', '.join(RESOURCE_TYPES)}", what="resource type")
        types[ascii_lower(name)] = RESOURCE_TYPES[kafka_name]
    return MappingProxyType(types)


RESOURCE_TYPES = {
    resource_type.name: resource_type
    for resource_type in ResourceType
    if resource_type not in (ResourceType.UNKNOWN, ResourceType.ANY)
}


def _some_pairs(text: str, shape: str) -> list[tuple[str, str]]:
    if not text:
        raise invalid(text, f"at least one {shape}")
    return _pairs(text, "=", shape)


def _pairs(text: str, separator: str, shape: str) -> list[tuple[str, str]]:
    """Return both sides of each entry of a comma list, split at the last separator as in Kafka."""
    pairs = []
    for entry in words(text):
        left, _, right = entry.rpartition(separator)
        left, right = trim(left), trim(right)
        if not (left and right):
            raise invalid(entry, shape, what="entry")
        pairs.append((left, right))
    return pairs
