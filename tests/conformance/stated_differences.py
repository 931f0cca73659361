"""Every intended difference between our answers and a broker's, with its reason.

docs/conformance.md lists them for users.

**Invariant:** a difference is exact. It defines the request that the broker gets in place of ours,
on which it might close the connection, and turns the broker's answer into ours. Everything else
must be equal.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from authorizerd.acl.model import Operation, PatternType, PermissionType, ResourceType
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.keys import KEYS_BY_NAME
from authorizerd.image.features import SUPPORTED_FEATURES
from authorizerd.protocol.kafka.api import ApiKey, served_apis
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.conformance.generated_requests import (
    ACL_REQUESTS,
    ANY,
    NOT_KAFKAS,
    Fields,
    Request,
    request_of,
)

Answer = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """A difference, and the reason for it.

    A broker gets ``ask(request)``; ``expect`` turns its answer into ours.
    """

    name: str
    reason: str
    applies: Callable[[Request], bool]
    expect: Callable[[Request, Answer], Answer]
    ask: Callable[[Request], Request] = lambda request: request


def applying(request: Request) -> list[Difference]:
    return [difference for difference in DIFFERENCES if difference.applies(request)]


# Never compared.

NEVER_COMPARED: Final = {"throttle_time", "port", "finalized_features_epoch"}
QUORUM_PROGRESS: Final = {
    "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp", "high_watermark",
    "leader_epoch",
}  # fmt: skip
"""Ends, times and epochs of each log, which differ; test_quorum.py checks them on each side."""
UNORDERED: Final = {
    "resources", "acls", "matching_acls", "topics", "groups", "responses", "configs",
    "credential_infos", "supported_features", "finalized_features",
}  # fmt: skip
"""Lists whose order comes from a set."""


def comparable(answer: Any, name: str = "") -> Any:  # noqa: ANN401 - an answer, or a part of one
    """Return an answer without the fields that differ by nature, with its sets sorted."""
    if isinstance(answer, dict):
        is_of_quorum = "high_watermark" in answer or "replica_id" in answer
        left_out = NEVER_COMPARED | (QUORUM_PROGRESS if is_of_quorum else set())
        return {key: comparable(answer[key], key) for key in answer if key not in left_out}
    if isinstance(answer, list | tuple):
        items = [comparable(item) for item in answer]
        is_of_users = any(isinstance(item, dict) and "user" in item for item in items)
        return sorted(items, key=_place) if name in UNORDERED or is_of_users else items
    return answer


def _place(item: Any) -> tuple[str, ...]:  # noqa: ANN401 - an item of an answer
    return *(str(item.get(key)) for key in ("resource_type", "resource_name", "name")), repr(item)


def _parts(answer: Any) -> Iterator[Answer]:  # noqa: ANN401 - an answer, or a part of one
    """Yield every part that has fields."""
    if isinstance(answer, dict):
        yield answer
        for value in answer.values():
            yield from _parts(value)
    elif isinstance(answer, list | tuple):
        for item in answer:
            yield from _parts(item)


# Versions that Kafka lacks.


def _is_of_no_kafka_version(request: Request) -> bool:
    return (request.api_key, request.version) in NOT_KAFKAS


def _in_a_kafka_version(request: Request) -> Request:
    if request.api_key is ApiKey.ENVELOPE:
        return replace(request, version=0)
    version = 4 if request.api_key is ApiKey.API_VERSIONS else 1
    return _with_fields(replace(request, version=version), request.fields)


def _without_pattern_types(request: Request, answer: Answer) -> Answer:
    for part in _parts(answer):
        if request.api_key in ACL_REQUESTS:
            part.pop("pattern_type", None)
    return answer


def _with_fields(request: Request, fields: Fields) -> Request:
    return request_of(
        request.api_key, request.version, request.user, fields, on_controller=request.on_controller
    )


# Codes for which Kafka closes the connection or fails.

CREATED: Final = {
    "resource_type": (range(2, 8), "resourceType", ResourceType),
    "resource_pattern_type": (range(3, 5), "patternType", PatternType),
    "operation": (range(2, 16), "operation", Operation),
    "permission_type": (range(2, 4), "permissionType", PermissionType),
}
"""The codes of a creation, in the order of the checks in Kafka's controller."""
FILTERED: Final = {
    "resource_type_filter": (range(1, 8), "Unknown patternFilter."),
    "pattern_type_filter": (range(1, 5), "Unknown patternFilter."),
    "operation": (range(1, 16), "Unknown entryFilter."),
    "permission_type": (range(1, 4), "Unknown entryFilter."),
}
NO_PRINCIPAL: Final = "nobody at all"
"""Matches no ACL and is invalid in a creation, because it has no colon."""


def _items(request: Request) -> list[Fields]:
    match request.api_key:
        case ApiKey.CREATE_ACLS:
            return list(request.fields.creations)
        case ApiKey.DELETE_ACLS:
            return list(request.fields.filters)
        case _:
            return [request.fields]


def _fault(item: Fields) -> str | None:
    """Return our error for an item's codes, or None if they are valid."""
    if hasattr(item, "principal"):
        for name, (good, text, codes) in CREATED.items():
            code = getattr(item, name)
            if code not in good:
                return f"Invalid {text} {codes.read(code).name}"
        return None
    faults = (text for name, (good, text) in FILTERED.items() if getattr(item, name) not in good)
    return next(faults, None)


def _has_odd_codes(request: Request) -> bool:
    is_of_acls = request.api_key in ACL_REQUESTS and request.is_whole
    return is_of_acls and any(map(_fault, _items(request)))


def _with_stand_ins(request: Request) -> Request:
    """Replace each item with odd codes by one that a broker answers without changing any ACL."""
    items = [item if _fault(item) is None else _stand_in(item) for item in _items(request)]
    match request.api_key:
        case ApiKey.CREATE_ACLS:
            return _with_fields(request, Fields(creations=items))
        case ApiKey.DELETE_ACLS:
            return _with_fields(request, Fields(filters=items))
        case _:
            return _with_fields(request, items[0])


def _stand_in(item: Fields) -> Fields:
    if hasattr(item, "principal"):
        codes = {n: g[0] for n, (g, _, _) in CREATED.items() if getattr(item, n) not in g}
        return Fields(**vars(item) | codes | {"principal": NO_PRINCIPAL})
    codes = dict.fromkeys(FILTERED, ANY)
    return Fields(**vars(item) | codes | {"principal_filter": NO_PRINCIPAL})


def _with_faults(request: Request, answer: Answer) -> Answer:
    """Put our error into the result of each odd item, unless its stand-in was refused."""
    lists = (answer[name] for name in ("results", "filter_results") if name in answer)
    results: Sequence[Answer] = next(lists, [answer])
    for item, result in zip(_items(request), results, strict=True):
        fault = _fault(item)
        was_let_through = result["error_code"] == ErrorCode.NONE or NO_PRINCIPAL in (
            result["error_message"] or ""
        )
        if fault is not None and was_let_through:
            result |= {"error_code": int(ErrorCode.INVALID_REQUEST), "error_message": fault}
    return answer


# Texts and lists.


def _with_our_refusal(request: Request, answer: Answer) -> Answer:
    for part in _parts(answer):
        if (part.get("error_message") or "").startswith("Request Request("):
            assert part["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            part["error_message"] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text
    return answer


def _with_our_apis(request: Request, answer: Answer) -> Answer:
    served = served_apis(is_controller=request.on_controller)
    theirs = {each["api_key"]: each for each in answer["api_keys"]}
    ours = {key: each for key, each in theirs.items() if key in served}
    for key, version in NOT_KAFKAS:
        if key in ours:
            ours[key]["min_version" if version == 0 else "max_version"] = version
    return answer | {"api_keys": [ours[key] for key in sorted(ours)]}


def _with_our_features(request: Request, answer: Answer) -> Answer:
    if not answer.get("supported_features"):
        return answer
    supported = [
        {"name": name, "min_version": lowest, "max_version": highest}
        for name, (lowest, highest) in SUPPORTED_FEATURES.items()
        if lowest or request.version > 3
    ]
    return answer | {"supported_features": supported}


def _with_our_documentation(request: Request, answer: Answer) -> Answer:
    for part in _parts(answer):
        if part.get("documentation") is not None:
            part["documentation"] = KEYS_BY_NAME[part["name"]].doc
    return answer


DEFAULT_SOURCE: Final = 5
NOT_A_VALUE: Final = re.compile(
    r"(Invalid value (.*) for configuration (.*)): Not a number of type INT", re.DOTALL
)


def _with_our_defaults(request: Request, answer: Answer) -> Answer:
    for part in _parts(answer):
        if part.get("source", part.get("config_source")) == DEFAULT_SOURCE:
            part["value"] = KEYS_BY_NAME[part["name"]].default
    return answer


def _with_our_reasons(request: Request, answer: Answer) -> Answer:
    for part in _parts(answer):
        refused = NOT_A_VALUE.fullmatch(part.get("error_message") or "")
        if refused:
            text, value, key = refused.groups()
            with pytest.raises(InvalidValueError) as error:
                KEYS_BY_NAME[key].parse(value)
            part["error_message"] = f"{text}: {error.value}"
    return answer


def _described_once(request: Request, answer: Answer) -> Answer:
    results: dict[tuple[int, str], Answer] = {}
    for each in answer["results"]:
        name = each["resource_name"]
        meant = str(int(name)) if re.fullmatch(r"-?[0-9]+", name) else name
        first = results.setdefault((each["resource_type"], meant), each)
        known = {entry["name"] for entry in first["configs"]}
        first["configs"] = [
            *first["configs"],
            *(entry for entry in each["configs"] if entry["name"] not in known),
        ]
    return answer | {"results": [*results.values()]}


def _with_names_of_users(request: Request, answer: Answer) -> Answer:
    """Return Kafka's refusal with the users' names, which Kafka leaves empty."""
    if answer["error_code"] != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return answer
    pairs = zip(request.fields.users, answer["results"], strict=True)
    return answer | {"results": [result | {"user": asked.name} for asked, result in pairs]}


def _is_of(*api_keys: ApiKey) -> Callable[[Request], bool]:
    return lambda request: request.api_key in api_keys


DIFFERENCES: Final = (
    Difference(
        name="versions that Kafka lacks",
        reason="The daemon also serves version 0 of the ACL requests, which has no pattern type,"
        " and KIP-801's version 1 of Envelope with error code 801. Kafka 4 serves neither.",
        applies=_is_of_no_kafka_version,
        ask=_in_a_kafka_version,
        expect=_without_pattern_types,
    ),
    Difference(
        name="odd codes",
        reason="Kafka closes the connection on code 0. The daemon answers INVALID_REQUEST for the"
        " item with an unusual code, and judges the other items.",
        applies=_has_odd_codes,
        ask=_with_stand_ins,
        expect=_with_faults,
    ),
    Difference(
        name="text of a refusal",
        reason="The code is Kafka's, 31. Kafka's text shows its request as an object in memory.",
        applies=_is_of(
            *ACL_REQUESTS,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.ENVELOPE,
        ),
        expect=_with_our_refusal,
    ),
    Difference(
        name="users of a refusal",
        reason="Kafka leaves the users' names empty; the daemon returns those of the request.",
        applies=_is_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS),
        expect=_with_names_of_users,
    ),
    Difference(
        name="APIs of a listener",
        reason="The daemon serves fewer APIs than a broker or controller, and version 0 of the ACL"
        " requests, too.",
        applies=_is_of(ApiKey.API_VERSIONS),
        expect=_with_our_apis,
    ),
    Difference(
        name="supported features",
        reason="The daemon's levels are those of Kafka 4.4, without kraft.version: it takes no part"
        " in a quorum with dynamic voters.",
        applies=_is_of(ApiKey.API_VERSIONS),
        expect=_with_our_features,
    ),
    Difference(
        name="defaults",
        reason="Kafka's default of max.connections, 2147483647, limits nothing; the daemon's"
        " default fits the usual limit of open files.",
        applies=_is_of(ApiKey.DESCRIBE_CONFIGS),
        expect=_with_our_defaults,
    ),
    Difference(
        name="repeated resources",
        reason="The daemon describes a repeated resource once; otherwise a few repeated bytes could"
        " cause an answer of any size.",
        applies=_is_of(ApiKey.DESCRIBE_CONFIGS),
        expect=_described_once,
    ),
    Difference(
        name="documentation of keys",
        reason="The documentation of a key says what it means in the daemon.",
        applies=_is_of(ApiKey.DESCRIBE_CONFIGS),
        expect=_with_our_documentation,
    ),
    Difference(
        name="what a value should have been",
        reason="The daemon names the bounds of the key, where Kafka names a Java type.",
        applies=_is_of(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
        expect=_with_our_reasons,
    ),
)
