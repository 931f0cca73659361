"""Warn of ACLs and principals that Kafka reads differently than their authors probably intend.

**Invariant:** these warnings never affect a decision. Kafka accepts such ACLs and principals, and
so does the daemon.

Source: Kafka 4.3 StandardAuthorizerData.findResult, KafkaPrincipal, ResourcePattern, Topic; Kafka
4.4 CidrUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.host_ranges import InvalidRangeError, name_range, read_range
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.releases import ANY_RELEASE, RULES, ReleaseRules
from authorizerd.acl.text.distinguished_names import is_certain, split_name, write_as_java
from authorizerd.acl.text.letter_case import ascii_lower

_USER: Final = "User"
_EVERYONE: Final = f"{_USER}:{WILDCARD}"
_TOPIC_OR_PATTERN: Final = re.compile(r"[a-zA-Z0-9._*-]*")
"""The characters of a topic's name in Kafka, and ``*``, which other warnings are about."""
EVERY_IPV4: Final = "0.0.0.0/0"
EVERY_IPV6: Final = "::/0"


def find_surprises(acl: Acl, rules: ReleaseRules = ANY_RELEASE) -> Iterator[str]:
    """Yield a sentence for each part of an ACL that probably does not do what it should.

    Args:
        rules: those of the Kafka releases that may judge.
    """
    if acl.principal == _EVERYONE:
        if acl.permission_type == PermissionType.DENY:
            yield (
                f"a DENY rule for {_EVERYONE} overrides every ALLOW rule for what it denies: only "
                "super users pass"
            )
    elif ":" not in acl.principal:
        yield (
            f"principal '{acl.principal}' has no colon: Kafka fails on this ACL, and so allows "
            "nobody but super users anything on what its pattern matches: remove it"
        )
    else:
        yield from find_principal_surprises(acl.principal)
    yield from _find_host_surprises(acl.host, rules)
    yield from _find_name_surprises(acl)
    yield from _find_operation_surprises(acl)


def find_principal_surprises(principal: str, *, is_mapped: bool = False) -> Iterator[str]:
    """Yield a sentence for each part of a principal that clients probably do not have.

    Args:
        is_mapped: whether rules map the names of certificates, so they may have any form.
    """
    principal_type, _, name = principal.partition(":")
    if principal_type != _USER and ascii_lower(principal_type.strip()) == ascii_lower(_USER):
        yield f"principal '{principal}': Kafka's clients have the type {_USER}, in this letter case"
    if ascii_lower(name).startswith(f"{ascii_lower(principal_type)}:"):
        yield f"principal '{principal}': the name repeats the type"
    if name != name.strip():
        yield f"principal '{principal}': blanks around the name are a part of it"
    if WILDCARD in name:
        yield (
            f"principal '{principal}': * is an ordinary character here; only {_EVERYONE} in an ACL"
            " means everyone"
        )
    if not is_mapped:
        yield from _find_form_surprises(principal, name.strip())


def _find_form_surprises(principal: str, name: str) -> Iterator[str]:
    """Yield the form in which Java writes a distinguished name, if the text differs from it."""
    parts = split_name(name)
    written = write_as_java(parts)
    if not parts or written == name or not all(part.is_known for part in parts):
        return
    form = f"as '{written}'" if is_certain(parts) else "with OIDs and hexadecimal digits"
    yield (
        f"principal '{principal}': Java writes a certificate's name {form}, unless"
        " ssl.principal.mapping.rules changes it"
    )


def find_asked_name_surprises(resource_type: int, name: str) -> Iterator[str]:
    """Yield a sentence for each reason why a name in a question is probably not intended."""
    yield from _find_character_surprises(resource_type, name)
    if WILDCARD in name:
        yield f"name '{name}': * is an ordinary character in a question: ask about one name"


def _find_host_surprises(host: str, rules: ReleaseRules) -> Iterator[str]:
    if host == WILDCARD:
        return
    if "/" in host:
        yield from _find_range_surprises(host, rules)
        return
    address = host_address(host)
    if address is None:
        yield (
            f"host '{host}' never matches: Kafka compares it, as a text, with the client's IP"
            " address, and does not look up host names; use addresses, or *"
        )
    elif address != host:
        yield f"host '{host}' never matches: Kafka writes this address as {address}"


def _find_range_surprises(host: str, rules: ReleaseRules) -> Iterator[str]:
    """Yield warnings about what a host with a slash does and does not match."""
    if not rules.range_denies:
        yield f"host '{host}' never matches: Kafka {rules} compares addresses, and knows no ranges"
        return
    try:
        addresses = read_range(host)
    except InvalidRangeError as error:
        yield f"host '{host}' never matches: Kafka cannot read this range: {error}"
        return
    if addresses.is_empty:
        yield f"host '{host}' never matches: this address is in no range; write it without /"
        return
    older = [release for release in rules.releases if not RULES[release].range_denies]
    if older:
        yield f"host '{host}': Kafka {' and '.join(older)} knows no ranges, and never matches it"
    if not addresses.is_certain:
        yield (
            f"host '{host}': only brokers that have this network interface can read it, so it"
            " denies here, and never allows"
        )
    begin = host.partition("/")[0].partition("%")[0]
    if host_address(begin) != host_address(str(addresses.first)):
        yield f"host '{host}' is the range {name_range(addresses)}"
    if name_range(addresses) in (EVERY_IPV4, EVERY_IPV6):
        family, other = ("IPv6", EVERY_IPV4) if addresses.is_ipv6 else ("IPv4", EVERY_IPV6)
        yield f"host '{host}' matches only {family}: the other addresses are {other}, and all are *"


def _find_operation_surprises(acl: Acl) -> Iterator[str]:
    resource_type = ResourceType.read(acl.resource_type)
    operation = Operation.read(acl.operation)
    supported = SUPPORTED.get(resource_type)
    # A code without a name belongs to a later Kafka version, which may support it.
    if supported is None or operation in (Operation.UNKNOWN, Operation.ALL, *supported):
        return
    names = ", ".join(each.name for each in (Operation.ALL, *supported))
    yield (
        f"operation {operation.name}: Kafka never asks for it on a resource of type "
        f"{resource_type.name}, which has the operations {names}"
    )


def _find_name_surprises(acl: Acl) -> Iterator[str]:
    name = acl.resource_name
    yield from _find_character_surprises(acl.resource_type, name)
    if WILDCARD not in name:
        return
    if acl.pattern_type == PatternType.PREFIXED:
        meant = "the literal name * matches all" if name == WILDCARD else "leave it out"
        yield f"prefix '{name}': * is an ordinary character here: {meant}"
    elif name != WILDCARD:
        yield (
            f"name '{name}': * is an ordinary character here; for all names with a beginning, use"
            " the pattern type PREFIXED"
        )


def _find_character_surprises(resource_type: int, name: str) -> Iterator[str]:
    stripped = name.strip()
    if name != stripped:
        yield f"name '{name}': the blanks around it are a part of it"
    if resource_type == ResourceType.TOPIC and not _TOPIC_OR_PATTERN.fullmatch(stripped):
        yield (
            f"name '{name}': no topic has this name: use letters a to z, digits, '.', '_' and '-'"
            + (", and name each topic by itself" if "," in name else "")
        )
