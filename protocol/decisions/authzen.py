"""Convert OpenID AuthZEN's JSON into questions.

**Invariant:** a question is built only from explicit fields. A missing, unknown or ill-typed field
is an error that names it, never a guess. Unknown fields are ignored, as the specification requires.

Source: OpenID AuthZEN Authorization API 1.0, sections 5 to 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from authorizerd.acl.as_of import AsOf, parse_as_of
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import OPERATIONS, Operation, Question
from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.protocol.decisions.json_keys import (
    QUESTION_BYTES_MAX,
    JsonKeysError,
    check_keys,
    has_only,
)
from authorizerd.protocol.decisions.spellings import Spellings
from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault, quote

T = TypeVar("T")


class AuthZenError(Exception):
    """A request, or one of its evaluations, that cannot be answered. The text names the field."""


class UnknownNameError(AuthZenError):
    """The type or the operation of a request is unknown. The text lists the known ones."""


class Vocabulary:
    """AuthZEN's type names in Kafka's terms.

    Args:
        subject_types: AuthZEN subject type to Kafka principal type.
        resource_types: AuthZEN resource type to Kafka resource type code.
    """

    def __init__(self, subject_types: Mapping[str, str], resource_types: Mapping[str, int]) -> None:
        self.subject_types: Final = Spellings(subject_types)
        self.operations: Final = Spellings({Operation(code).name: code for code in OPERATIONS})
        self.resource_types: Final = Spellings(
            {ascii_lower(name): int(code) for name, code in resource_types.items()}
        )
        self.usual_subject_types: Final = self.subject_types.usual
        self.usual_operations: Final = self.operations.usual
        self.usual_resource_types: Final = self.resource_types.usual


class SubjectProperties(msgspec.Struct, gc=False, omit_defaults=True):
    """The client's address. Other fields are ignored."""

    host: str | None = None


class Context(msgspec.Struct, gc=False, omit_defaults=True):
    """The client's address, and what the answer's context contains. Other fields are ignored."""

    host: str | None = None
    explain: bool = False
    list_hosts: bool = False
    as_of: int | str | None = None


class Subject(msgspec.Struct, gc=False, omit_defaults=True):
    """The principal that the question is about."""

    type: str
    id: str
    properties: SubjectProperties | None = None


class Action(msgspec.Struct, gc=False, omit_defaults=True):
    """The operation that the subject asks for."""

    name: str


class Resource(msgspec.Struct, gc=False, omit_defaults=True):
    """The resource that the subject asks for."""

    type: str
    id: str


class Evaluation(msgspec.Struct, gc=False, omit_defaults=True):
    """One evaluation as sent. Defaults may supply absent fields."""

    subject: Subject | None = None
    action: Action | None = None
    resource: Resource | None = None
    context: Context | None = None


_decode_evaluation: Final = msgspec.json.Decoder(Evaluation).decode


def decode_evaluation(body: bytes) -> Evaluation:
    """Return the evaluation in a JSON text.

    Raises:
        AuthZenError: it is not JSON, a field has the wrong type, or an object names a key twice.
    """
    try:
        evaluation = _decode_evaluation(body)
        # Decode before this check: the decoder's errors name the field.
        if len(body) > QUESTION_BYTES_MAX or not has_only(body, evaluation):
            check_keys(body)
    except JSON_ERRORS as error:
        raise AuthZenError(describe_json_fault(error)) from None
    except JsonKeysError as error:
        raise AuthZenError(str(error)) from None
    return evaluation


def build_question(evaluation: Evaluation, vocabulary: Vocabulary) -> Question:
    """Return Kafka's question for ``evaluation``.

    Raises:
        AuthZenError: a field is missing or unknown, or the host is not an IP address.
    """
    subject, action, resource = evaluation.subject, evaluation.action, evaluation.resource
    if subject is None or action is None or resource is None:
        raise AuthZenError(f"{_missing(evaluation)} is missing")
    # The usual spellings take one dictionary lookup and no call.
    principal_type = vocabulary.usual_subject_types.get(subject.type)
    if principal_type is None:
        principal_type = find_subject_type(subject.type, vocabulary)
    operation = vocabulary.usual_operations.get(action.name)
    if operation is None:
        operation = find_operation(action.name, vocabulary)
    resource_type = vocabulary.usual_resource_types.get(resource.type)
    if resource_type is None:
        resource_type = find_resource_type(resource.type, vocabulary)
    host = None
    if subject.properties is not None or evaluation.context is not None:
        host = host_of(subject.properties, evaluation.context)
    return Question(f"{principal_type}:{subject.id}", host, operation, resource_type, resource.id)


def find_subject_type(name: str, vocabulary: Vocabulary) -> str:
    """Return the principal type named by a request. Raises UnknownNameError."""
    return _find(vocabulary.subject_types, "subject.type: unknown type", name)


def find_operation(name: str, vocabulary: Vocabulary) -> int:
    """Return the operation named by a request. Raises UnknownNameError."""
    return _find(vocabulary.operations, "action.name: unknown operation", name)


def find_resource_type(name: str, vocabulary: Vocabulary) -> int:
    """Return the resource type named by a request. Raises UnknownNameError."""
    return _find(vocabulary.resource_types, "resource.type: unknown type", name)


def _find(spellings: Spellings[T], what: str, name: str) -> T:
    found = spellings.find(name)
    if found is None:
        raise UnknownNameError(spellings.describe_unknown(what, name))
    return found


def as_of_context(context: Context | None) -> AsOf | None:
    """Return the earlier moment that a request is about, None for now.

    Raises:
        AuthZenError: it is neither an offset nor a time with its zone.
    """
    if context is None or context.as_of is None:
        return None
    try:
        return parse_as_of(context.as_of)
    except InvalidAsOfError as error:
        raise AuthZenError(f"context.as_of: {error}") from None


def host_of(properties: SubjectProperties | None, context: Context | None) -> str | None:
    """Return the client's address as Kafka writes it, or None if the request has none.

    Raises:
        AuthZenError: it is not an IP address, or ``properties`` and ``context`` differ.
    """
    of_subject = None if properties is None else properties.host
    of_context = None if context is None else context.host
    text = of_subject if of_context is None else of_context
    if text is None:
        return None
    host = host_address(text)
    if host is None:
        place = "subject.properties.host" if of_context is None else "context.host"
        raise AuthZenError(f"{place}: expected an IP address, found {quote(text)}")
    # Compare addresses, not texts: one address can be written in several ways.
    if of_subject is not None and host_address(of_subject) != host:
        raise AuthZenError("host: context.host and subject.properties.host differ")
    return host


def _missing(evaluation: Evaluation) -> str:
    named = (
        ("subject", evaluation.subject),
        ("action", evaluation.action),
        ("resource", evaluation.resource),
    )
    return next(name for name, value in named if value is None)
