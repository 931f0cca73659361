"""The text of an explanation, line by line.

**Invariant:** the first line is the text of Kafka's audit log, except that it is one line. No line
contains an unprintable character.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from authorizerd.acl.audit.line import audit_message
from authorizerd.acl.decision import UnjudgeableAcl
from authorizerd.acl.explanation.model import (
    AclChange,
    Changes,
    Explanation,
    MatchingAclMeaning,
)
from authorizerd.acl.explanation.words import (
    count_of,
    name_operation,
    name_pattern,
    name_resource,
)
from authorizerd.acl.index.bits import is_unindexed
from authorizerd.acl.model import Operation
from authorizerd.acl.snapshot import is_unjudgeable
from authorizerd.acl.text.kafka_acls import entry_arguments, why_inexpressible
from authorizerd.acl.text.printable import escape_unprintable

REQUEST_NAME: Final = "explain"
ANY_SERVER: Final = "HOST:PORT"
"""The address in a kafka-acls line, which the reader replaces."""
ASK_WITH_HOST: Final = (
    "The host is unknown, and the answer depends on it: ask again with --host (over HTTP:"
    " context.host)."
)


def describe(
    explanation: Explanation,
    server: str = ANY_SERVER,
    origin: str | None = None,
    now: str | None = None,
) -> Iterator[str]:
    """Yield the lines of the text.

    Args:
        server: the value of ``--bootstrap-server`` in the kafka-acls lines.
        origin: the line that says which ACLs these are; None: a line with the log offset.
        now: for an explanation of the past, the line about today's answer, if that is different.
            No change is shown then.
    """
    if origin is None:
        acls = count_of(explanation.acl_count, "ACL")
        origin = f"at log offset {explanation.offset}, with {acls}"
        if explanation.releases:
            origin += f", by the rules of Kafka {' or '.join(explanation.releases)}"
    yield from map(escape_unprintable, _describe_reasons(explanation, origin))
    if now is not None:
        yield escape_unprintable(now)
        yield "  No change is shown, because today's answer is already the opposite."
        return
    for line in _describe_changes(explanation, server):
        # Escaping would change a name in a command, so `_describe_command` omits such commands.
        yield line if line.isprintable() else escape_unprintable(line)


def _describe_reasons(explanation: Explanation, origin: str) -> Iterator[str]:
    """Yield the decision, the ACLs that match, the setting, and what almost matches."""
    yield audit_message(explanation.question, explanation.decision, REQUEST_NAME)
    for meaning in explanation.acls:
        yield f"  {meaning.acl}: {describe_meaning(explanation, meaning)}"
    if explanation.acls_left_out:
        yield f"  and {count_of(explanation.acls_left_out, 'more matching ACL')}"
    yield origin
    yield describe_settings(explanation)
    if explanation.near_misses:
        yield "near misses:"
        for miss in explanation.near_misses:
            yield f"  {miss.text}"
    for sentence in explanation.unsearched:
        yield f"  {sentence}"


def describe_meaning(explanation: Explanation, meaning: MatchingAclMeaning) -> str:
    """Return what one matching ACL means: "allows DESCRIBE, because READ implies it"."""
    verb = "allow" if meaning.allows else "deny"
    operation = name_operation(explanation.question.operation)
    because = _because(meaning)
    if explanation.is_super_user:
        return f"would {verb} {operation}{because}, but ACLs do not apply to a super user"
    if meaning.allows and not explanation.decision.allowed:
        is_failure = isinstance(explanation.decision.rule, UnjudgeableAcl)
        stronger = "Kafka fails on another ACL" if is_failure else "a DENY overrides it"
        return f"would {verb} {operation}{because}, but {stronger}"
    verbs = "allows" if meaning.allows else "denies"
    outcome = "; this ACL decides" if meaning.decides else "; another ACL decides"
    outcome += f"; it is granted {meaning.end}" if meaning.end else ""
    return f"{verbs} {operation}{because}{outcome}"


def _because(meaning: MatchingAclMeaning) -> str:
    """Return why an ACL of another operation, or with a code of a later version, applies."""
    acl = meaning.acl
    if is_unjudgeable(acl):
        return (
            ", as everything to everyone but super users: the principal has no colon, and Kafka"
            " fails on such an ACL"
        )
    because = ""
    if meaning.is_implied and acl.operation == Operation.ALL:
        because = ", because ALL includes it"
    elif meaning.is_implied:
        because = f", because {name_operation(acl.operation)} implies it"
    if is_unindexed(acl):
        because += " (the ACL has a code that this version does not know, so it denies)"
    return because


def describe_settings(explanation: Explanation) -> str:
    """Return a sentence about the setting that matters for the question."""
    question, default = explanation.question, explanation.default
    key = "allow.everyone.if.no.acl.found"
    if explanation.is_super_user:
        return f"{question.principal} is a super user, so no ACL is needed"
    resource = name_resource(question.resource_type, question.resource_name)
    if default.acl_count == 0:
        if default.is_set:
            return f"{key} applies: no ACL matches {resource}, so everyone is allowed"
        value = "unknown" if default.is_set is None else "false"
        return f"{key} is {value}, and no ACL of any principal matches {resource}"
    if default.is_set is False:
        return f"{key} is false"
    patterns = ", ".join(
        name_pattern(pattern.pattern_type, pattern.name) for pattern in default.patterns
    )
    shown = sum(pattern.acl_count for pattern in default.patterns)
    more = ", …" if shown < default.acl_count else ""
    counted = count_of(default.acl_count, "ACL")
    verb = "matches" if default.acl_count == 1 else "match"
    return f"{key} does not apply: {counted} {verb} {resource} ({patterns}{more})"


def _describe_changes(explanation: Explanation, server: str) -> Iterator[str]:
    changes = explanation.changes
    wanted = "deny" if explanation.decision.allowed else "allow"
    scope = ""
    if explanation.depends_on_host:
        yield ASK_WITH_HOST
        scope = " from every host"
    if changes.stays_denied:
        scope = " from other hosts"
    if changes.reason is not None:
        yield f"no ACL would {wanted} it{scope}: {changes.reason}"
        return
    yield f"to {wanted} it{scope}, {_count_changes(changes)}:"
    for change in changes.listed:
        yield f"  {describe_command(change, server)}"
    if changes.left_out:
        yield f"  and {count_of(changes.left_out, 'more ACL')} to remove"
    for effect in changes.effects:
        yield f"  {effect}"


def describe_effects(explanation: Explanation) -> tuple[str, ...]:
    """Return what else the changes do; first, whether they apply to more hosts than needed."""
    effects = explanation.changes.effects
    if not (explanation.depends_on_host and explanation.changes.listed):
        return effects
    if explanation.changes.stays_denied:
        return (ASK_WITH_HOST, *effects)
    return (f"{ASK_WITH_HOST} The change allows it from every host.", *effects)


def _count_changes(changes: Changes) -> str:
    if changes.smallest is not None:
        return "add one ACL" if changes.smallest.adds else "remove one ACL"
    added = sum(change.adds for change in changes.listed)
    removed = len(changes.listed) - added + changes.left_out
    text = f"remove {count_of(removed, 'ACL')}"
    return f"{text} and add {count_of(added, 'ACL')}" if added else text


def describe_command(change: AclChange, server: str = ANY_SERVER) -> str:
    """Return the kafka-acls line of a change; if there is none, the change and the reason."""
    command = make_command(change, server)
    if command is not None and command.isprintable():
        return command
    reason = why_inexpressible(change.acl, removes=not change.adds)
    reason = reason or "a name contains an unprintable character"
    verb = "add" if change.adds else "remove"
    return f"{verb} {change.acl} (no kafka-acls line: {reason})"


def make_command(change: AclChange, server: str = ANY_SERVER) -> str | None:
    """Return the kafka-acls line of a change, quoted for a shell, or None if it has no flags.

    kafka-acls does not accept a principal without a colon, but ``authorizerd acls`` removes it.
    """
    if why_inexpressible(change.acl, removes=not change.adds) is not None:
        return None
    program = ["authorizerd", "acls"] if is_unjudgeable(change.acl) else ["kafka-acls"]
    action = ["--add"] if change.adds else ["--remove", "--force"]
    arguments = ["--bootstrap-server", server, *action, *entry_arguments(change.acl)]
    return shlex.join([*program, *arguments])
