"""Oracle: decisions by a plain scan of all ACLs, without code of the index.

The rules come from KIP-290 for patterns, and from Kafka's scan order for the named rule.
"""

from __future__ import annotations

from collections.abc import Collection

from authorizerd.acl.model import Acl, Question

ALL, READ, WRITE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 6, 7, 8
DESCRIBE_CONFIGS, ALTER_CONFIGS = 10, 11
DENY, ALLOW, LITERAL, PREFIXED = 2, 3, 3, 4


def meets(acl: Acl, question: Question) -> bool:
    """Return True if the ACL's pattern matches the resource."""
    if acl.resource_type != question.resource_type or not 2 <= acl.resource_type <= 7:
        return False
    name, pattern = question.resource_name, acl.resource_name
    if acl.pattern_type != PREFIXED and pattern == "*":
        return name == "*" or not name.startswith("*")
    return name == pattern if acl.pattern_type == LITERAL else name.startswith(pattern)


def speaks(acl: Acl, question: Question) -> bool:
    """Return True if the ACL applies to the question, as an ALLOW or a DENY."""
    allows = acl.permission_type == ALLOW
    implied = {
        DESCRIBE: (READ, WRITE, DELETE, ALTER) if allows else (),
        DESCRIBE_CONFIGS: (ALTER_CONFIGS,) if allows else (),
    }.get(question.operation, ())
    own = (question.operation,) if 2 <= question.operation <= 15 else ()
    if allows and acl.pattern_type not in (LITERAL, PREFIXED):
        return False
    if question.host is None:
        host_fits = acl.host == "*" or not allows
    else:
        host_fits = acl.host in ("*", question.host)
    return (
        host_fits
        and acl.principal in (question.principal, "User:*")
        and acl.operation in (ALL, *own, *implied)
        and meets(acl, question)
    )


def decide(
    acls: Collection[Acl], allow_everyone: bool, question: Question
) -> tuple[bool, Acl | None]:
    """Return the answer and its ACL, or None for a default."""
    name = question.resource_name

    def place(acl: Acl) -> tuple[object, ...]:
        pattern = acl.pattern_type if acl.pattern_type in (LITERAL, PREFIXED) else 0
        texts = (acl.principal.encode("utf-16-be"), acl.host.encode("utf-16-be"))
        return (-len(acl.resource_name), pattern, acl.operation, *texts, acl.permission_type)

    spoken = [acl for acl in acls if speaks(acl, question)]
    wild = [a for a in spoken if a.pattern_type != PREFIXED and a.resource_name == "*" != name]
    own = sorted((acl for acl in spoken if acl not in wild), key=place)
    wild.sort(key=place)
    scan = [*own, *wild, *(own if name < "*" else ())]
    denying = [acl for acl in scan if acl.permission_type != ALLOW]
    if denying:
        return False, denying[0]
    if scan:
        return True, scan[-1]
    return allow_everyone and not any(meets(acl, question) for acl in acls), None
