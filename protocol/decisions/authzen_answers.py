"""Decisions to OpenID AuthZEN's JSON.

The texts around a decision's values are prepared, since an answer is needed for each question.

Source: OpenID AuthZEN Authorization API 1.0, sections 5.5 and 7.2.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.decision import Decision, DefaultRule, MatchingAcl
from authorizerd.acl.model import CLUSTER_NAME, Question, ResourceType


def describe_hint(question: Question) -> str | None:
    """Return the mistake that the caller of a denied question probably made, or None.

    For example, the id ``User:alice`` gives the principal ``User:User:alice``, and the cluster has
    only one name in ACLs.
    """
    principal_type, _, name = question.principal.partition(":")
    if name.startswith(f"{principal_type}:"):
        return (
            f"the subject's id begins with {principal_type}:, which its type adds already:"
            f" the principal asked about is {question.principal}"
        )
    if question.resource_type == ResourceType.CLUSTER and question.resource_name != CLUSTER_NAME:
        return f"the id of the resource cluster is always {CLUSTER_NAME} in Kafka's ACLs"
    return None


_encode: Final = msgspec.json.Encoder().encode

_REASONS: Final = {
    DefaultRule.SUPER_USER: "the principal is a super user",
    DefaultRule.DEFAULT_ALLOW: "no ACL matches the resource, and everyone is allowed then",
    DefaultRule.DEFAULT_DENY: "no ACL allows it",
}


def _prepare(allowed: bool, reason: str) -> bytes:
    """Return an answer with places for the offset and for what follows the reason."""
    return b'{"decision":%b,"context":{"offset":%%d,"reason":%b,"rule":%%b}}' % (
        _encode(allowed),
        _encode(reason),
    )


_BY_DEFAULT: Final = {
    (allowed, rule): _prepare(allowed, reason)
    for allowed in (False, True)
    for rule, reason in _REASONS.items()
}
_BY_ACL: Final = (_prepare(False, "an ACL denies it"), _prepare(True, "an ACL allows it"))
_BY_PLUG_IN: Final = (
    _prepare(False, "the authorizer denies it"),
    _prepare(True, "the authorizer allows it"),
)


def encode_answer(decision: Decision, offset: int, question: Question) -> bytes:
    """Return the JSON of one decision.

    Its context has the rule, the log offset and a reason, and possibly a hint for a denial.
    """
    allowed, rule = decision.allowed, decision.rule
    if isinstance(rule, MatchingAcl):
        answer = _BY_ACL[allowed]
    elif isinstance(rule, DefaultRule):
        answer = _BY_DEFAULT[allowed, rule]
    else:
        answer = _BY_PLUG_IN[allowed]
    text = _encode(str(rule))
    hint = None if allowed else describe_hint(question)
    if hint is not None:
        text += b',"hint":' + _encode(hint)
    return answer % (offset, text)


class _Error(msgspec.Struct, gc=False):
    status: int
    message: str


class _ErrorContext(msgspec.Struct, gc=False):
    error: _Error


class _FailedAnswer(msgspec.Struct, gc=False):
    decision: bool
    context: _ErrorContext


def encode_failed_answer(status: int, message: str) -> bytes:
    """Return the JSON of one evaluation among many that could not be answered: a denial."""
    return _encode(_FailedAnswer(False, _ErrorContext(_Error(status, message))))


def encode_answers(answers: list[bytes]) -> bytes:
    """Return the JSON of the response to many evaluations. The answers are already encoded."""
    return b'{"evaluations":[' + b",".join(answers) + b"]}"
