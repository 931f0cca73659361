"""What the decision port answers, for its OpenAPI document.

A surface adds its own table here, so that the document has it.
"""

from __future__ import annotations

from typing import Final

from authorizerd.daemon.decisions.acl_list import ACLS_PATH
from authorizerd.daemon.decisions.acl_watch import WATCH_PATH
from authorizerd.daemon.decisions.explain import EXPLAIN_PATH
from authorizerd.daemon.decisions.opa import DATA_PATH, HEALTH_PATH
from authorizerd.protocol.decisions.acl_feed import (
    AclsEvent,
    BeginEvent,
    ListedAcl,
    ListingBegin,
    ListingEnd,
    StateEvent,
)
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
from authorizerd.protocol.decisions.opa import Healthy, OpaAnswer, OpaQuery
from authorizerd.protocol.decisions.searches import (
    ActionSearch,
    ActionSearchAnswer,
    ResourceSearch,
    ResourceSearchAnswer,
    SubjectSearch,
    SubjectSearchAnswer,
)
from authorizerd.protocol.http.endpoints import (
    CERTIFICATE,
    EVENTS,
    GET,
    LINES,
    POST,
    TOKEN,
    TOKEN_IN_QUERY,
    Answer,
    Endpoint,
    Parameter,
)
from authorizerd.protocol.http.openapi import DOCUMENT_ENDPOINT

DECISION_TITLE: Final = "authorizerd: decision port"
DECISION_DESCRIPTION: Final = (
    "Ask whether a principal may do something, by the ACLs of Apache Kafka. Errors are one line of"
    " plain text that names the field, what was expected and what was found. Unknown fields are"
    " ignored. A JSON object that contains a key twice is rejected, and so is a question of more"
    " than 32 KiB. A caller may ask about itself; to ask about others, it needs CLUSTER_ACTION on"
    " the cluster."
)

INVALID: Final = Answer(400, "The request is invalid: the text names the field to fix.")
FORBIDDEN: Final = Answer(
    403,
    "The caller asks about another principal, without CLUSTER_ACTION. The text names the caller's"
    " principal.",
)
NOT_READY: Final = Answer(
    503, "`AUTHORIZER_NOT_READY`: the ACLs are not loaded yet, or stale; the text says which."
)
REFUSALS: Final = (INVALID, FORBIDDEN, NOT_READY)
"""The errors of every endpoint that answers questions (``HttpSurface``)."""

_QUESTION: Final = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}

_AUTHZEN: Final = (
    Endpoint(
        path=EVALUATION_PATH,
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

BUSY: Final = Answer(
    503,
    "Too many searches and explanations wait, or this one took too long (with `Retry-After`); or"
    " `AUTHORIZER_NOT_READY`, as for decisions.",
    headers=("Retry-After",),
)
_SEARCH_REFUSALS: Final = (
    Answer(400, "The search is invalid, or its page token is unknown or has expired."),
    FORBIDDEN,
    BUSY,
)
_SEARCH_NOTE: Final = (
    "A page may have fewer results than its limit, even none: the last page is the one with an"
    " empty `next_token`. For an unknown type or operation, nothing is found, and the context has"
    " the reason."
)
_SEARCHES: Final = (
    Endpoint(
        path=SEARCH_SUBJECT_PATH,
        methods=POST,
        name="searchSubjects",
        tag="AuthZEN",
        summary="Find the principals that may do something to a resource",
        description=f"The caller needs CLUSTER_ACTION. {_SEARCH_NOTE}",
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
    methods=POST,
    name="explain",
    tag="Explanations",
    summary="Explain why a question is allowed or denied, and what would change that",
    description="The caller needs CLUSTER_ACTION, since the answer shows ACLs of others.",
    request=Evaluation,
    required=("subject", "action", "resource"),
    example=_QUESTION,
    answers=(Answer(200, "Explained.", ExplanationAnswer), INVALID, FORBIDDEN, BUSY),
)

_POLICY_PATH: Final = Parameter(
    "policy",
    "path",
    "The path of a policy rule, of any number of segments. It is ignored.",
    required=True,
)
_OPA: Final = tuple(
    Endpoint(
        path=path,
        methods=POST,
        name=name,
        tag="OPA",
        summary="Decide a question of Kafka's OPA plugin",
        request=OpaQuery,
        example={
            "input": {
                "requestContext": {
                    "clientAddress": "/10.0.0.1",
                    "principal": {"principalType": "User", "name": "alice"},
                },
                "action": {
                    "resourcePattern": {
                        "resourceType": "TOPIC",
                        "name": "orders",
                        "patternType": "LITERAL",
                    },
                    "operation": "READ",
                },
            }
        },
        parameters=parameters,
        answers=(Answer(200, "Decided.", OpaAnswer), *REFUSALS),
        credentials=(TOKEN, TOKEN_IN_QUERY, CERTIFICATE),
    )
    for path, name, parameters in (
        (DATA_PATH, "queryData", ()),
        (f"{DATA_PATH}/{{policy}}", "queryPolicy", (_POLICY_PATH,)),
    )
)
_HEALTH: Final = Endpoint(
    path=HEALTH_PATH,
    methods=GET,
    name="checkHealth",
    tag="OPA",
    summary="Check whether the ACLs are loaded",
    answers=(
        Answer(200, "They are loaded.", Healthy),
        Answer(503, "They are not loaded yet, or stale; the text says which."),
    ),
    credentials=(),
)

_FILTER_MEANINGS: Final = (
    ("resource_type", "Kafka's name of a resource type, in any case."),
    ("resource_name", "The name of a resource pattern; with `pattern_type=MATCH`, of a resource."),
    ("pattern_type", "`LITERAL`, `PREFIXED`, `MATCH` or `ANY`."),
    ("principal", "A type and a name, such as `User:alice`."),
    ("host", "An IP address, or `*`."),
    ("operation", "Kafka's name of an operation, in any case."),
    ("permission_type", "`ALLOW`, `DENY` or `ANY`."),
)
_UNSEEN: Final = Answer(
    403, "The caller may not see ACLs. The text names the principal, which needs DESCRIBE."
)
_BUSY: Final = Answer(
    503,
    "`AUTHORIZER_NOT_READY`: the ACLs are not loaded yet, or stale. Or a limit is reached; then"
    " `Retry-After` is set. The text says which.",
    headers=("Retry-After",),
)
_ACLS: Final = (
    Endpoint(
        path=ACLS_PATH,
        methods=GET,
        name="listAcls",
        tag="ACLs",
        summary="List the ACLs at one log offset",
        description="The answer has a line of JSON for the offset, one for each ACL, and one for"
        " their number. Without the last line, it is incomplete. An absent parameter matches every"
        " value.",
        parameters=tuple(
            Parameter(name, "query", f"Only ACLs with this value. {meaning}")
            for name, meaning in _FILTER_MEANINGS
        ),
        answers=(
            Answer(200, "The ACLs.", parts=(ListingBegin, ListedAcl, ListingEnd), media_type=LINES),
            INVALID,
            _UNSEEN,
            _BUSY,
        ),
    ),
    Endpoint(
        path=WATCH_PATH,
        methods=GET,
        name="watchAcls",
        tag="ACLs",
        summary="Follow the changes of ACLs as server-sent events",
        description="Every change after an offset is sent, once and in order. To resume after a"
        " lost connection, send the last id again. docs/watch.md describes the events.",
        parameters=(
            Parameter(
                "after",
                "query",
                "Send the changes after this log offset. Without it, changes after the newest"
                " offset are sent.",
                int,
            ),
            Parameter("Last-Event-ID", "header", "As `after`, and takes precedence over it."),
        ),
        answers=(
            Answer(
                200,
                "The events follow. Each has one of these objects as its data.",
                parts=(BeginEvent, AclsEvent, StateEvent),
                media_type=EVENTS,
            ),
            INVALID,
            _UNSEEN,
            Answer(410, "The changes after this offset are not in memory: list the ACLs again."),
            _BUSY,
        ),
    ),
)

DECISION_ENDPOINTS: Final = (
    *_AUTHZEN,
    *_SEARCHES,
    _EXPLAIN,
    *_OPA,
    *_ACLS,
    _HEALTH,
    DOCUMENT_ENDPOINT,
)
"""All endpoints of the decision port."""
