"""What AuthZEN's endpoints, explanations and histories answer, for the port's OpenAPI document."""

from __future__ import annotations

from typing import Final

from authorizerd.daemon.decisions.explain import EXPLAIN_PATH
from authorizerd.daemon.decisions.history import HISTORY_PATH
from authorizerd.daemon.decisions.refusals import FORBIDDEN, INVALID, REFUSALS
from authorizerd.daemon.decisions.search import SEARCHES
from authorizerd.protocol.decisions.authzen import Evaluation, Evaluations
from authorizerd.protocol.decisions.authzen_answers import (
    EvaluationAnswer,
    EvaluationAnswers,
    FailedEvaluation,
)
from authorizerd.protocol.decisions.discovery import (
    DISCOVERY_PATH,
    EVALUATION_PATH,
    EVALUATIONS_PATH,
    SEARCH_ACTION_PATH,
    SEARCH_RESOURCE_PATH,
    SEARCH_SUBJECT_PATH,
    Metadata,
)
from authorizerd.protocol.decisions.explanations import ExplanationAnswer
from authorizerd.protocol.decisions.past_answers import AnswerHistory
from authorizerd.protocol.decisions.searches import (
    ActionSearch,
    ActionSearchAnswer,
    ResourceSearch,
    ResourceSearchAnswer,
    SubjectSearch,
    SubjectSearchAnswer,
)
from authorizerd.protocol.http.endpoints import (
    GET,
    POST,
    Answer,
    Endpoint,
)
from authorizerd.protocol.http.rights import EVALUATIONS, EXPLANATIONS, HISTORIES

_QUESTION: Final = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}

_DECISIONS: Final = (
    Endpoint(
        path=EVALUATION_PATH,
        needs=EVALUATIONS,
        methods=POST,
        name="evaluate",
        tag="AuthZEN",
        summary="Decide one question",
        request=Evaluation,
        required=("subject", "action", "resource"),
        example=_QUESTION,
        answers=(Answer(200, "Decided.", EvaluationAnswer), *REFUSALS),
    ),
    Endpoint(
        path=EVALUATIONS_PATH,
        needs=EVALUATIONS,
        methods=POST,
        name="evaluateAll",
        tag="AuthZEN",
        summary="Decide many questions by one state of the ACLs",
        description="Each evaluation takes its absent fields, as a whole, from the outer object. An"
        " evaluation that is invalid, or that the caller may not ask, becomes a denial that gives"
        " the reason. Without evaluations, the outer object is the question, and the answer is"
        " that to one question.",
        request=Evaluations,
        example={
            "subject": {"type": "user", "id": "alice"},
            "resource": {"type": "topic", "id": "orders"},
            "evaluations": [{"action": {"name": "read"}}, {"action": {"name": "write"}}],
        },
        answers=(
            Answer(
                200,
                "Decided.",
                (EvaluationAnswers, EvaluationAnswer),
                parts=(FailedEvaluation,),
            ),
            *REFUSALS,
        ),
    ),
    Endpoint(
        path=DISCOVERY_PATH,
        methods=GET,
        name="discover",
        tag="AuthZEN",
        summary="Find the addresses of AuthZEN's endpoints",
        answers=(
            Answer(200, "They begin with `authorizerd.authzen.base.url`, if it is set.", Metadata),
            Answer(400, "The `Host` header names no host."),
        ),
        credentials=(),
    ),
)

_BUSY: Final = Answer(
    503,
    "Too many searches and explanations wait, or this one took too long (with `Retry-After`); or"
    " `AUTHORIZER_NOT_READY`, as for decisions.",
    headers=("Retry-After",),
)
_SEARCH_REFUSALS: Final = (
    Answer(400, "The search is invalid, or its page token is unknown or has expired."),
    FORBIDDEN,
    _BUSY,
)
_SEARCH_NOTE: Final = (
    "A page may have fewer results than its limit, even none: the last page is the one with an"
    " empty `next_token`. For an unknown type or operation, nothing is found, and the context has"
    " the reason."
)
_SEARCHES: Final = (
    Endpoint(
        path=SEARCH_SUBJECT_PATH,
        needs=SEARCHES[SEARCH_SUBJECT_PATH],
        methods=POST,
        name="searchSubjects",
        tag="AuthZEN",
        summary="Find the principals that may do something to a resource",
        description=f"The caller needs `authorizerd.callers.search`. {_SEARCH_NOTE}",
        request=SubjectSearch,
        example={
            "subject": {"type": "user"},
            "action": {"name": "read"},
            "resource": {"type": "topic", "id": "orders"},
        },
        answers=(Answer(200, "A page of the results.", SubjectSearchAnswer), *_SEARCH_REFUSALS),
    ),
    Endpoint(
        path=SEARCH_RESOURCE_PATH,
        needs=SEARCHES[SEARCH_RESOURCE_PATH],
        methods=POST,
        name="searchResources",
        tag="AuthZEN",
        summary="Find the resources to which a subject may do something",
        description=_SEARCH_NOTE,
        request=ResourceSearch,
        example={
            "subject": {"type": "user", "id": "alice"},
            "action": {"name": "read"},
            "resource": {"type": "topic"},
            "page": {"limit": 100},
        },
        answers=(Answer(200, "A page of the results.", ResourceSearchAnswer), *_SEARCH_REFUSALS),
    ),
    Endpoint(
        path=SEARCH_ACTION_PATH,
        needs=SEARCHES[SEARCH_ACTION_PATH],
        methods=POST,
        name="searchActions",
        tag="AuthZEN",
        summary="Find what a subject may do to a resource",
        description=_SEARCH_NOTE,
        request=ActionSearch,
        example={
            "subject": {"type": "user", "id": "alice"},
            "resource": {"type": "topic", "id": "orders"},
        },
        answers=(Answer(200, "A page of the results.", ActionSearchAnswer), *_SEARCH_REFUSALS),
    ),
)
_EXPLAIN: Final = Endpoint(
    path=EXPLAIN_PATH,
    needs=EXPLANATIONS,
    methods=POST,
    name="explain",
    tag="Explanations",
    summary="Explain why a question is allowed or denied, and what would change that",
    description="The caller needs `authorizerd.callers.search`, even for its own rights, since the"
    " answer shows ACLs of others.",
    request=Evaluation,
    required=("subject", "action", "resource"),
    example=_QUESTION,
    answers=(Answer(200, "Explained.", ExplanationAnswer), INVALID, FORBIDDEN, _BUSY),
)

_HISTORY: Final = Endpoint(
    path=HISTORY_PATH,
    needs=HISTORIES,
    methods=POST,
    name="readHistory",
    tag="Explanations",
    summary="List every answer to a question since a moment, and the changes that led to them",
    description="`context.as_of` is the moment. The caller needs `authorizerd.callers.read`,"
    " even for its own rights, since the answer lists changes of ACLs.",
    request=Evaluation,
    required=("subject", "action", "resource", "context"),
    example={**_QUESTION, "context": {"as_of": 0}},
    answers=(Answer(200, "All answers.", AnswerHistory), *REFUSALS),
)

AUTHZEN_ENDPOINTS: Final = (*_DECISIONS, *_SEARCHES, _EXPLAIN, _HISTORY)
