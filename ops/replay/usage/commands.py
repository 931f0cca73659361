"""kafka-acls' flags for an ACL, and the script that makes a suggestion real.

**Invariant:** a command means exactly the ACL it was made for, whatever is in its names; what
kafka-acls cannot say is refused here, not said approximately. The script adds before it removes.

Source: Kafka 4.3 AclCommand, which trims names, principals and hosts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.model import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.validation import validate_new_acl

_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim takes off
_FLAGS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}

_OPENING: Final = """\
set -eu
if [ $# -eq 0 ]; then
    echo "usage: sh $0 --bootstrap-server HOST:PORT [--command-config FILE]" >&2
    exit 2
fi
: "${KAFKA_ACLS:=kafka-acls}" # or kafka-acls.sh, or authorizerd acls
"""


def why_inexpressible(acl: Acl) -> str | None:
    """Return why kafka-acls cannot add or remove just ``acl``, None where it can."""
    try:
        validate_new_acl(acl)
    except InvalidAclError as error:
        return str(error)
    resource_type = ResourceType(acl.resource_type)
    if acl.operation not in (Operation.ALL, *SUPPORTED[resource_type]):
        return f"kafka-acls knows no {Operation(acl.operation).name} on {resource_type.name}"
    if resource_type == ResourceType.CLUSTER:
        if (acl.resource_name, acl.pattern_type) != (CLUSTER_NAME, PatternType.LITERAL):
            return f"kafka-acls names the cluster only as the literal {CLUSTER_NAME}"
        texts: tuple[str, ...] = (acl.principal, acl.host)
    else:
        texts = (acl.resource_name, acl.principal, acl.host)
    if any("\0" in text for text in texts):
        return "no command line can hold the character NUL"
    if resource_type == ResourceType.TRANSACTIONAL_ID:
        texts = texts[1:]  # the one name that kafka-acls does not trim
    if any(text != text.strip(_JAVA_BLANKS) for text in texts):
        return "kafka-acls takes the blanks off the ends of names"
    return None if acl.host else "kafka-acls knows no empty host"


def entry_arguments(acl: Acl) -> list[str]:
    """Return the flags that name ``acl``, which is expressible, after ``--add`` or ``--remove``."""
    kind = "allow" if acl.permission_type == PermissionType.ALLOW else "deny"
    operation = Operation(acl.operation).name.title().replace("_", "")
    arguments = [f"--{kind}-principal", acl.principal, f"--{kind}-host", acl.host]
    arguments += ["--operation", operation]
    if acl.resource_type == ResourceType.CLUSTER:
        return [*arguments, "--cluster"]
    pattern_type = PatternType(acl.pattern_type).name.lower()
    flag = _FLAGS[ResourceType(acl.resource_type)]
    return [*arguments, flag, acl.resource_name, "--resource-pattern-type", pattern_type]


def script(comments: Sequence[str], added: Iterable[Acl], removed: Sequence[Acl]) -> str:
    """Return a shell script that adds and then removes ACLs, and stops at the first failure.

    Its arguments go to every command: where the cluster is, and how to log in.
    """
    lines = ["#!/bin/sh", *(f"# {printable(comment)}" for comment in comments)]
    lines += _OPENING.splitlines()
    lines += _section("Narrower grants, before the wide ones go", ["--add"], added)
    lines += _section("Wide and unused grants", ["--remove", "--force"], removed)
    return "\n".join(lines) + "\n"


def _section(title: str, flags: list[str], acls: Iterable[Acl]) -> Iterator[str]:
    yield ""
    yield f"# {title}"
    none = True
    for acl in acls:
        none = False
        yield f'$KAFKA_ACLS "$@" {shlex.join([*flags, *entry_arguments(acl)])}'
    if none:
        yield "# none"


def printable(text: str) -> str:
    """Return ``text`` on one line, such as a comment: what cannot be seen is written as escapes."""
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )
