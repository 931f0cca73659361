"""Oracle: decisions by a plain scan of all ACLs, without code of the index.

The rules come from KIP-290 for patterns, and from Kafka's scan order for the named rule.
"""

from collections.abc import Collection, Sequence
from ipaddress import ip_address, ip_network
from typing import Final

from authorizerd.acl.model import Acl, Question
from authorizerd.acl.releases import ANY_RELEASE, ReleaseRules

ALL, READ, WRITE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 6, 7, 8
DESCRIBE_CONFIGS, ALTER_CONFIGS = 10, 11
DENY, ALLOW, LITERAL, PREFIXED = 2, 3, 3, 4

Settings = tuple[frozenset[str], bool]
"""The super users, and whether everyone is allowed what no ACL is about."""
STRICT: Final[Settings] = (frozenset(), False)


def meets(acl: Acl, question: Question) -> bool:
    """Return True if the ACL's pattern matches the resource."""
    if acl.resource_type != question.resource_type or not 2 <= acl.resource_type <= 7:
        return False
    name, pattern = question.resource_name, acl.resource_name
    if acl.pattern_type != PREFIXED and pattern == "*":
        return name == "*" or not name.startswith("*")
    return name == pattern if acl.pattern_type == LITERAL else name.startswith(pattern)


def in_range(acl_host: str, host: str | None) -> bool:
    """Return True if the host of an ACL is a range with ``host``, or any range if that is None."""
    try:
        plain = acl_host.replace("%eth0", "")
        # Python also reads a mask after the slash, which Kafka does not.
        is_length = plain.partition("/")[2].isdigit()
        network = ip_network(plain, strict=False) if is_length else None
    except ValueError:
        return False
    if network is None or host is None:
        return network is not None
    return host != "0.0.0.0" and ip_address(host) in network


def is_address(text: str) -> bool:
    """Return True if the text is an address as Kafka writes it."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    groups = address.exploded.split(":")
    return text == (
        str(address) if address.version == 4 else ":".join(f"{int(g, 16):x}" for g in groups)
    )


def fits(acl: Acl, host: str | None, rules: ReleaseRules) -> bool:
    """Return True if the host of the ACL matches."""
    allows = acl.permission_type == ALLOW
    if (
        (rules.range_allows if allows else rules.range_denies)
        and (host is not None or not allows)
        and (not allows or "%" not in acl.host)
        and in_range(acl.host, host)
    ):
        return True
    if host is None:
        return acl.host == "*" or (not allows and is_address(acl.host))
    return acl.host in ("*", host)


def speaks(acl: Acl, question: Question, rules: ReleaseRules = ANY_RELEASE) -> bool:
    """Return True if the ACL applies to the question, as an ALLOW or a DENY."""
    allows = acl.permission_type == ALLOW
    implied = {
        DESCRIBE: (READ, WRITE, DELETE, ALTER) if allows else (),
        DESCRIBE_CONFIGS: (ALTER_CONFIGS,) if allows else (),
    }.get(question.operation, ())
    own = (question.operation,) if 2 <= question.operation <= 15 else ()
    if allows and acl.pattern_type not in (LITERAL, PREFIXED):
        return False
    return (
        fits(acl, question.host, rules)
        and acl.principal in (question.principal, "User:*")
        and acl.operation in (ALL, *own, *implied)
        and meets(acl, question)
    )


def fails(acl: Acl, question: Question) -> bool:
    """Return True if Kafka fails on the ACL, which then denies the question."""
    return ":" not in acl.principal and meets(acl, question)


def concerns(acl: Acl, question: Question, rules: ReleaseRules = ANY_RELEASE) -> bool:
    """Return True if the ACL allows or denies the question."""
    return fails(acl, question) or speaks(acl, question, rules)


def decide(
    acls: Collection[Acl],
    allow_everyone: bool,
    question: Question,
    rules: ReleaseRules = ANY_RELEASE,
) -> tuple[bool, Acl | None]:
    """Return the answer and its ACL, or None for a default."""
    name = question.resource_name
    if any(fails(acl, question) for acl in acls):
        return False, None

    def place(acl: Acl) -> tuple[object, ...]:
        pattern = acl.pattern_type if acl.pattern_type in (LITERAL, PREFIXED) else 0
        texts = (acl.principal.encode("utf-16-be"), acl.host.encode("utf-16-be"))
        return (-len(acl.resource_name), pattern, acl.operation, *texts, acl.permission_type)

    spoken = [acl for acl in acls if speaks(acl, question, rules)]
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


def find_wrong(
    acls: frozenset[Acl],
    asked: Sequence[Question],
    decisions: Sequence[bool],
    settings: Sequence[Settings] = (STRICT,),
) -> str | None:
    """Return the first decision that no ``settings`` explain, None if they explain all."""
    if len(asked) != len(decisions):
        return f"{len(decisions)} decisions for {len(asked)} questions"
    for question, decision in zip(asked, decisions, strict=True):
        rule = None
        for super_users, allow_everyone in settings:
            expected, rule = decide(acls, allow_everyone=allow_everyone, question=question)
            if (expected or question.principal in super_users) is decision:
                break
        else:
            return f"expected {not decision} for {question} by {rule}, found {decision}"
    return None
