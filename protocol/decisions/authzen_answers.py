"""Convert decisions into OpenID AuthZEN's JSON.

The texts around a decision's values are prepared in advance, since every question needs an answer.

Source: OpenID AuthZEN Authorization API 1.0, sections 5.5 and 7.2.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.decision import (
    Decision,
    DefaultRule,
    MatchingAcl,
    UnjudgeableAcl,
)
from authorizerd.acl.model import CLUSTER_NAME, Question, ResourceType
from authorizerd.acl.text.letter_case import ascii_lower

PRINCIPAL_SHOWN_MAX: Final = 200
"""The longest principal in a hint, in characters: a batch repeats the hint for each question."""
_CLUSTER: Final = int(ResourceType.CLUSTER)  # comparing with the enum member takes longer


def describe_hint(question: Question) -> str | None:
    """Return the mistake that the caller of a denied question probably made, or None.

    For example, the id ``User:alice`` gives the principal ``User:User:alice``, and the cluster has
    only one name in ACLs.
    """
    principal, resource_name = question.principal, question.resource_name
    is_about_cluster = question.resource_type == _CLUSTER
    if not is_about_cluster and principal.count(":") == 1 and "*" not in resource_name:
        return None  # the common case, kept fast: every denial comes here
    principal_type, _, name = principal.partition(":")
    if ascii_lower(name).startswith(f"{ascii_lower(principal_type)}:"):
        shown = principal[:PRINCIPAL_SHOWN_MAX]
        return (
            f"the subject's id begins with {name[: len(principal_type) + 1]}, which its type "
            f"already adds: the principal asked about is {shown}{'…' * (shown != principal)}"
        )
    if is_about_cluster and resource_name != CLUSTER_NAME:
        return f"the id of the resource cluster is always {CLUSTER_NAME} in Kafka's ACLs"
    if "*" in resource_name:
        return "the resource's id contains *, which is an ordinary character in a question"
    return None


_encode: Final = msgspec.json.Encoder().encode


def _prepare(denied: bytes, allowed: bytes) -> tuple[bytes, bytes]:
    """Return templates of a denial and a permission, with slots for offset, rule and hint."""
    start = b'{"decision":%b,"context":{"offset":%%d,"reason":"%b","rule":%%b%%b}}'
    return start % (b"false", denied), start % (b"true", allowed)


_BY_ACL: Final = _prepare(b"an ACL denies it", b"an ACL allows it")
_BY_FAILURE: Final = _prepare(
    *[b"Kafka fails on an ACL whose principal has no colon, so nobody is allowed"] * 2
)
_BY_PLUG_IN: Final = _prepare(b"the authorizer denies it", b"the authorizer allows it")
_BY_DEFAULT: Final = {
    rule: (_prepare(reason, reason), _encode(str(rule)))
    for rule, reason in (
        (DefaultRule.SUPER_USER, b"the principal is a super user"),
        (
            DefaultRule.DEFAULT_ALLOW,
            b"no ACL matches the resource, and everyone is allowed then",
        ),
        (DefaultRule.DEFAULT_DENY, b"no ACL allows it"),
    )
}


def encode_answer(decision: Decision, offset: int, question: Question) -> bytes:
    """Return the JSON of one decision.

    Its context has the rule, the log offset and a reason, and possibly a hint for a denial.
    """
    allowed, rule = decision.allowed, decision.rule
    if isinstance(rule, MatchingAcl):  # the common case
        templates, text = _BY_ACL, _encode(str(rule))
    elif isinstance(rule, DefaultRule):
        templates, text = _BY_DEFAULT[rule]
    else:
        templates = _BY_FAILURE if isinstance(rule, UnjudgeableAcl) else _BY_PLUG_IN
        text = _encode(str(rule))
    hint = None if allowed else describe_hint(question)
    return templates[allowed] % (
        offset,
        text,
        b"" if hint is None else b',"hint":%b' % _encode(hint),
    )


def add_explanation(answer: bytes, explanation: bytes) -> bytes:
    """Return an answer of ``encode_answer`` with an explanation's JSON in its context."""
    return b'%b,"explanation":%b}}' % (answer.removesuffix(b"}}"), explanation)


class EvaluationError(msgspec.Struct, gc=False):
    """Why one evaluation among many could not be answered."""

    status: int
    message: str


class FailedContext(msgspec.Struct, gc=False):
    """The context of an evaluation that could not be answered."""

    error: EvaluationError


class FailedEvaluation(msgspec.Struct, gc=False):
    """The answer to one evaluation among many that could not be answered: a denial."""

    decision: bool
    context: FailedContext


def encode_failed_answer(status: int, message: str) -> bytes:
    """Return the JSON of a ``FailedEvaluation``."""
    return _encode(FailedEvaluation(False, FailedContext(EvaluationError(status, message))))


def encode_answers(answers: list[bytes]) -> bytes:
    """Return the JSON of the response to many evaluations. The answers are already encoded."""
    return b'{"evaluations":[' + b",".join(answers) + b"]}"
