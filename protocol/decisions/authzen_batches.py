"""Decode AuthZEN's batches: evaluations, and defaults for their absent fields.

An evaluation inherits an absent field as a whole. As the certification's test of September 2026
demands, a subject or resource without a type also has the type of the batch's.

Source: OpenID AuthZEN Authorization API 1.0, section 7; openid/authzen, issue 640.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import takewhile
from typing import Final

import msgspec

from authorizerd.protocol.decisions.authzen import (
    Action,
    AuthZenError,
    Context,
    Evaluation,
    Resource,
    Subject,
    SubjectProperties,
    decode_evaluation,
)
from authorizerd.protocol.decisions.json_keys import (
    QUESTION_BYTES_MAX,
    JsonKeysError,
    check_keys,
    check_keys_around,
    has_only,
)
from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault

EVALUATIONS_MAX: Final = 1000
_NO_DEFAULTS: Final = Evaluation()


class Semantic(Enum):
    """When the evaluation of a batch stops."""

    EXECUTE_ALL = "execute_all"
    DENY_ON_FIRST_DENY = "deny_on_first_deny"
    PERMIT_ON_FIRST_PERMIT = "permit_on_first_permit"

    def ends_after(self, allowed: bool) -> bool:
        """Return True if evaluation stops after this result."""
        if self is Semantic.DENY_ON_FIRST_DENY:
            return not allowed
        return self is Semantic.PERMIT_ON_FIRST_PERMIT and allowed


class _Options(msgspec.Struct, gc=False, omit_defaults=True):
    """How the evaluations of one request are answered."""

    evaluations_semantic: Semantic = Semantic.EXECUTE_ALL


class DefaultSubject(msgspec.Struct, gc=False, omit_defaults=True):
    """A batch's subject. Without an id, it is only the type of subjects that have none."""

    type: str
    id: str | msgspec.UnsetType = msgspec.UNSET
    properties: SubjectProperties | None = None


class DefaultResource(msgspec.Struct, gc=False, omit_defaults=True):
    """A batch's resource. Without an id, it is only the type of resources that have none."""

    type: str
    id: str | msgspec.UnsetType = msgspec.UNSET


class Batch(msgspec.Struct, gc=False, omit_defaults=True):
    """The outer object of a batch: defaults for the absent fields of its evaluations."""

    subject: DefaultSubject | None = None
    action: Action | None = None
    resource: DefaultResource | None = None
    context: Context | None = None
    options: _Options | None = None

    @property
    def semantic(self) -> Semantic:
        return Semantic.EXECUTE_ALL if self.options is None else self.options.evaluations_semantic

    @property
    def defaults(self) -> Evaluation | None:
        """The batch's defaults for its evaluations; None if there are no evaluations."""
        subject, resource = self.subject, self.resource
        whole = Evaluation(action=self.action, context=self.context)
        if subject is not None and subject.id is not msgspec.UNSET:
            whole.subject = Subject(subject.type, subject.id, subject.properties)
        if resource is not None and resource.id is not msgspec.UNSET:
            whole.resource = Resource(resource.type, resource.id)
        return None if whole == _NO_DEFAULTS else whole


class Evaluations(Batch, omit_defaults=True):
    """Many evaluations, and defaults for their absent fields.

    Without evaluations, the defaults are the only evaluation.
    """

    # Raw, because each is decoded separately: an invalid one does not affect the others.
    evaluations: msgspec.Raw = msgspec.Raw(b"null")


class _ReadableEvaluations(Batch, omit_defaults=True):
    evaluations: list[Evaluation] = []


_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_readable: Final = msgspec.json.Decoder(_ReadableEvaluations).decode
_decode_evaluations: Final = msgspec.json.Decoder(Evaluations).decode

_PLACES: Final = [f"evaluation_{number}" for number in range(EVALUATIONS_MAX)]
_FirstEvaluations: Final = msgspec.defstruct(
    "_FirstEvaluations",
    [(place, msgspec.Raw, msgspec.UNSET) for place in _PLACES],
    array_like=True,
    forbid_unknown_fields=True,
    gc=False,
)
"""An array whose first excess item stops the decoder, which would read a list to its end."""
_decode_array: Final = msgspec.json.Decoder(_FirstEvaluations | None).decode


def decode_evaluations(body: bytes) -> tuple[Batch, Sequence[Evaluation | msgspec.Raw]]:
    """Return the request in a JSON text, and its evaluations; raw ones stay undecoded.

    Raises:
        AuthZenError: as ``decode_evaluation``, or there are more than ``EVALUATIONS_MAX``.
    """
    if len(body) <= QUESTION_BYTES_MAX:
        with suppress(*JSON_ERRORS):
            readable = _decode_readable(body)
            evaluations = readable.evaluations
            if len(evaluations) <= EVALUATIONS_MAX and has_only(body, readable):
                return readable, evaluations
    return _decode_apart(body)


def _decode_apart(body: bytes) -> tuple[Batch, list[msgspec.Raw]]:
    """Decode a request that has long, or possibly unreadable, evaluations."""
    try:
        request = _decode_evaluations(body)
        evaluations = _split_array(request.evaluations)
        if evaluations:
            check_keys_around("evaluations", len(bytes(request.evaluations)), body)
    except JSON_ERRORS as error:
        semantics = (semantic.value for semantic in Semantic)
        raise AuthZenError(describe_json_fault(error, semantics)) from None
    except JsonKeysError as error:
        raise AuthZenError(str(error)) from None
    return request, evaluations


def _split_array(text: msgspec.Raw) -> list[msgspec.Raw]:
    """Return the texts of an array's items; none for null."""
    try:
        array = _decode_array(text)
    except JSON_ERRORS as error:
        # Only the text of msgspec's error distinguishes this fault from others.
        if "of at most length" in str(error):
            raise AuthZenError(
                f"evaluations: expected at most {EVALUATIONS_MAX}, found more"
            ) from None
        raise AuthZenError(f"evaluations: {describe_json_fault(error)}") from None
    if array is None:
        return []
    items = map(partial(getattr, array), _PLACES)
    return list(takewhile(lambda item: item is not msgspec.UNSET, items))


def decode_evaluation_of(batch: Batch, text: msgspec.Raw) -> Evaluation:
    """Return the evaluation in a part of a batch's text, with the types that only the batch names.

    Raises:
        AuthZenError: see ``decode_evaluation``.
    """
    try:
        return decode_evaluation(bytes(text))
    except AuthZenError:
        completed = _add_types(bytes(text), batch)
        if completed is None:
            raise
        return decode_evaluation(completed)


def _add_types(text: bytes, batch: Batch) -> bytes | None:
    """Return an evaluation's text with the batch's types; None if nothing is to be added."""
    completed = False
    try:
        check_keys(text)
        members = _decode_members(text)
        for name, default in (("subject", batch.subject), ("resource", batch.resource)):
            if default is not None and name in members:
                entity = _decode_members(members[name])
                if "type" not in entity:
                    entity["type"] = msgspec.Raw(msgspec.json.encode(default.type))
                    members[name] = msgspec.Raw(msgspec.json.encode(entity))
                    completed = True
    except (*JSON_ERRORS, JsonKeysError):
        return None  # the first decoder's error says more
    return msgspec.json.encode(members) if completed else None


def apply_defaults(evaluation: Evaluation, defaults: Evaluation) -> Evaluation:
    """Return the evaluation with each absent field taken, as a whole, from ``defaults``."""
    return Evaluation(
        evaluation.subject or defaults.subject,
        evaluation.action or defaults.action,
        evaluation.resource or defaults.resource,
        evaluation.context or defaults.context,
    )
