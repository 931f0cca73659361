"""What OPA's data API answers, for the port's OpenAPI document."""

from __future__ import annotations

from typing import Final

from authorizerd.daemon.decisions.opa import DATA_PATH, HEALTH_PATH
from authorizerd.daemon.decisions.refusals import REFUSALS
from authorizerd.protocol.decisions.opa import Healthy, OpaAnswer, OpaQuery
from authorizerd.protocol.http.endpoints import (
    CERTIFICATE,
    GET,
    POST,
    TOKEN,
    TOKEN_IN_QUERY,
    Answer,
    Endpoint,
    Parameter,
)
from authorizerd.protocol.http.rights import DECISIONS

_POLICY_PATH: Final = Parameter(
    "policy",
    "path",
    "The path of a policy rule, of any number of segments. It is ignored.",
    required=True,
)
_DATA: Final = tuple(
    Endpoint(
        path=path,
        needs=DECISIONS,
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

OPA_ENDPOINTS: Final = (*_DATA, _HEALTH)
