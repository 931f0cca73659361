"""The JSON of an explanation: the answer of ``POST /v1/explain``, and of ``explain --json``."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from authorizerd.acl.explanation.description import (
    ANY_SERVER,
    describe_effects,
    describe_meaning,
    describe_settings,
    make_command,
)
from authorizerd.acl.explanation.model import (
    AclChange,
    Explanation,
    MatchingAclMeaning,
    NearMiss,
    NearMissKind,
)
from authorizerd.acl.model import Operation, PatternType, Question, ResourceType
from authorizerd.acl.text.named_acl import NamedAcl, name_acl
from authorizerd.protocol.decisions.past_answers import AsOfAnswer


class QuestionAnswer(msgspec.Struct, frozen=True):
    """A question in Kafka's terms. ``host`` is null if it is unknown."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str


class MatchingAclAnswer(msgspec.Struct, frozen=True):
    """An ACL that matches the question.

    ``implied`` is true if its operation is not the one asked about, but implies it. ``decides`` is
    true if this ACL is the rule of the decision. ``text`` says what it means.
    """

    acl: NamedAcl
    allows: bool
    implied: bool
    decides: bool
    text: str


class PatternAnswer(msgspec.Struct, frozen=True):
    """A resource pattern, and the number of ACLs that have it."""

    pattern_type: str
    resource_name: str
    acl_count: int


class SettingsAnswer(msgspec.Struct, frozen=True):
    """The settings that matter.

    ``acl_count`` is the number of ACLs whose pattern matches the resource, for any principal.
    allow.everyone.if.no.acl.found applies only if it is 0. ``patterns`` are the first of their
    patterns.
    """

    super_user: bool
    allow_everyone_if_no_acl_found: bool
    applies: bool
    acl_count: int
    patterns: tuple[PatternAnswer, ...]
    text: str


class NearMissAnswer(msgspec.Struct, frozen=True):
    """A similar question, or a similar ACL, with which the answer would be allow.

    ``instead`` is a similar question, which is allowed. ``rewritten`` is a version of ``acl`` that
    would allow the question.
    """

    kind: NearMissKind
    text: str
    acl: NamedAcl | None
    instead: QuestionAnswer | None
    rewritten: NamedAcl | None


class ChangeAnswer(msgspec.Struct, frozen=True):
    """An ACL to add or to remove.

    ``kafka_acls`` is a shell command, or null if kafka-acls cannot express the ACL. It begins with
    ``authorizerd acls`` if the ACL's principal has no colon: kafka-acls cannot remove such an ACL.
    """

    change: Literal["add", "remove"]
    acl: NamedAcl
    kafka_acls: str | None


class ExplanationAnswer(msgspec.Struct, frozen=True):
    """Why a question is allowed or denied, and what would change that.

    ``smallest_change`` reverses the answer. It is null if no single change does: then ``changes``
    is the shortest sequence that does, or is empty if there is none, for the reason in
    ``no_change``. ``depends_on_host`` is true if the host is unknown and only some hosts are
    denied: ask again with a host, since the changes are for more than one host. ``releases`` names
    the Kafka releases whose rules were used: something is allowed only if each of them allows it.
    ``as_of`` is present if the question was about an earlier moment.
    """

    decision: bool
    offset: int
    rule: str
    question: QuestionAnswer
    acls: tuple[MatchingAclAnswer, ...]
    acls_left_out: int
    settings: SettingsAnswer
    near_misses: tuple[NearMissAnswer, ...]
    unsearched: tuple[str, ...]
    smallest_change: ChangeAnswer | None
    changes: tuple[ChangeAnswer, ...]
    changes_left_out: int
    no_change: str | None
    effects: tuple[str, ...]
    depends_on_host: bool
    releases: tuple[str, ...]
    as_of: AsOfAnswer | msgspec.UnsetType = msgspec.UNSET


_encode: Final = msgspec.json.Encoder().encode


def encode_explanation(explanation: Explanation) -> bytes:
    """Return the JSON of an explanation, which may have hundreds of ACLs."""
    return _encode(_make_answer(explanation, ANY_SERVER))


def make_explanation_answer(
    explanation: Explanation, server: str = ANY_SERVER
) -> ExplanationAnswer:
    """Return an explanation with names instead of codes.

    Args:
        server: the value of ``--bootstrap-server`` in the kafka-acls lines.
    """
    return _make_answer(explanation, server)


def _make_answer(explanation: Explanation, server: str) -> ExplanationAnswer:
    acls = [_make_matching_acl(explanation, meaning) for meaning in explanation.acls]
    changes = [make_change_answer(change, server) for change in explanation.changes.listed]
    return ExplanationAnswer(
        decision=explanation.decision.allowed,
        offset=explanation.offset,
        rule=str(explanation.decision.rule),
        question=make_question(explanation.question),
        acls=tuple(acls),
        acls_left_out=explanation.acls_left_out,
        settings=_make_settings(explanation),
        near_misses=tuple(map(_make_near_miss, explanation.near_misses)),
        unsearched=explanation.unsearched,
        smallest_change=None if explanation.changes.smallest is None else changes[0],
        changes=tuple(changes),
        changes_left_out=explanation.changes.left_out,
        no_change=explanation.changes.reason,
        effects=describe_effects(explanation),
        depends_on_host=explanation.depends_on_host,
        releases=explanation.releases,
    )


def make_question(question: Question) -> QuestionAnswer:
    """Return a question with Kafka's names."""
    return QuestionAnswer(
        principal=question.principal,
        host=question.host,
        operation=Operation.read(question.operation).name,
        resource_type=ResourceType.read(question.resource_type).name,
        resource_name=question.resource_name,
    )


def _make_matching_acl(explanation: Explanation, meaning: MatchingAclMeaning) -> MatchingAclAnswer:
    return MatchingAclAnswer(
        acl=name_acl(meaning.acl),
        allows=meaning.allows,
        implied=meaning.is_implied,
        decides=meaning.decides,
        text=describe_meaning(explanation, meaning),
    )


def _make_settings(explanation: Explanation) -> SettingsAnswer:
    default = explanation.default
    return SettingsAnswer(
        super_user=explanation.is_super_user,
        # A daemon knows the value. `authorizerd explain` replaces it if it is unknown.
        allow_everyone_if_no_acl_found=default.is_set is True,
        applies=default.applies and not explanation.is_super_user,
        acl_count=default.acl_count,
        patterns=tuple(
            PatternAnswer(
                PatternType.read(pattern.pattern_type).name, pattern.name, pattern.acl_count
            )
            for pattern in default.patterns
        ),
        text=describe_settings(explanation),
    )


def _make_near_miss(miss: NearMiss) -> NearMissAnswer:
    return NearMissAnswer(
        kind=miss.kind,
        text=miss.text,
        acl=None if miss.acl is None else name_acl(miss.acl),
        instead=None if miss.instead is None else make_question(miss.instead),
        rewritten=None if miss.rewritten is None else name_acl(miss.rewritten),
    )


def make_change_answer(change: AclChange, server: str = ANY_SERVER) -> ChangeAnswer:
    """Return a change with names instead of codes, and its kafka-acls line."""
    return ChangeAnswer(
        change="add" if change.adds else "remove",
        acl=name_acl(change.acl),
        kafka_acls=make_command(change, server),
    )
