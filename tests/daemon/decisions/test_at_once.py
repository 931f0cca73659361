"""Which requests are answered at once; and the quick check of their keys, which changes nothing."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.daemon.decisions.authzen import AT_ONCE_MAX
from authorizerd.daemon.decisions.opa import DATA_PATH, OpaHandler
from authorizerd.protocol.decisions import authzen
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.streamed import Handler
from tests.daemon import opa_requests
from tests.daemon.decision_place import PROXY, TOKENS, Place, authzen_handler
from tests.support.acls import acl
from tests.support.answers import answer_of
from tests.support.requests import evaluation, http_request

ACLS = (
    acl("User:a", "READ", topic="t"),
    acl("User:a", "READ", topic="t:", deny=True),
    acl("User:*", "DESCRIBE", topic='"\\', host="10.0.0.1"),
    acl("User:proxy", "ALL", topic="u"),
)
VALUES = st.sampled_from(
    [
        '"a"', '"t"', '"t:"', '"a:b"', '"User:a"', '"*"', '"user"', '"topic"', '"TOPIC"', '"read"',
        '"Read"', '"DESCRIBE"', '"10.0.0.1"', '"::1"', '"::0:1"', '"x"', '"\\u003a"', '"\\"\\\\"',
        '""', "null", "1", "1.5", "[]", '[":"]', "{}", '{"host":"10.0.0.1"}', '{":":":"}',
        '"User"', '"uSER"', '"Topic"', '"DescribeConfigs"', '"describe-configs"', "true",
        '{"explain":true}',
    ]
)  # fmt: skip


def objects(fields: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[str]:
    """Return texts of objects: usually each field once, sometimes others, or one of them twice."""
    extra = st.lists(st.tuples(st.sampled_from([*fields, "x", ":"]), VALUES), max_size=1)
    return st.builds(
        lambda given, more, blank: (
            "{"
            + f",{blank}".join(f'"{key}"{blank}:{value}' for key, value in [*given, *more])
            + "}"
        ),
        st.tuples(*(st.tuples(st.just(key), value) for key, value in fields.items())),
        st.one_of(st.just([]), st.just([]), extra),
        st.sampled_from(["", " "]),
    )


def rarely_other(*texts: str) -> st.SearchStrategy[str]:
    return st.one_of(*(4 * [st.sampled_from([json.dumps(text) for text in texts])]), VALUES)


HOSTS = objects({"host": rarely_other("10.0.0.1", "::1")})
CONTEXTS = st.one_of(HOSTS, HOSTS, objects({"explain": st.sampled_from(["true", "false", "1"])}))
SUBJECT = {"type": rarely_other("user"), "id": rarely_other("a", "b", "a:b", "a proxy", "*")}
PARTS = {
    "subject": st.one_of(
        objects(SUBJECT), objects(SUBJECT), objects(SUBJECT | {"properties": HOSTS})
    ),
    "action": objects({"name": rarely_other("read", "describe", "Read", "describe-configs")}),
    "resource": objects(
        {"type": rarely_other("topic", "Topic"), "id": rarely_other("t", "t:", "u")}
    ),
}
EVALUATIONS = st.one_of(objects(PARTS), objects(PARTS | {"context": CONTEXTS}), VALUES)
BATCHES = st.builds(
    lambda items, more: f'{{"evaluations":[{",".join(items)}]{more}}}',
    st.lists(EVALUATIONS, max_size=4),
    st.one_of(
        st.just(""),
        st.sampled_from(
            [
                ',"options":{"evaluations_semantic":"deny_on_first_deny"}',
                ',"subject":{"type":"user","id":"a"}',
                ',"evaluations":[]',
                ',"x":1',
                "}",
            ]
        ),
    ),
)  # fmt: skip


def post(path: str, body: str, token: str = "") -> Request:
    headers = {b"content-type": b"application/json", b"x-request-id": b"7"}
    return http_request(path, body.encode(), caller=token, headers=headers)


async def answers_alike(request: Request, *places: Place) -> bool:
    """Compare an answer with that of a decoder which examines each key; True if it came at once."""
    quick, thorough = (_new_handler(place, request) for place in places)
    begun = quick(request)
    with patch.object(authzen, "has_only", lambda *_: False):
        expected = await answer_of(thorough(request))
    assert await answer_of(begun) == expected
    assert places[0].audit_log.lines == places[1].audit_log.lines
    assert vars_of(places[0]) == vars_of(places[1])
    return isinstance(begun, Response)


def _new_handler(place: Place, request: Request) -> Handler:
    if request.path.startswith(DATA_PATH):
        return OpaHandler(place.authorizer, place.callers)
    return authzen_handler(place)


def vars_of(place: Place) -> list[int]:
    return [
        number
        for counts in place.authorizer.counts.values()
        for number in (counts.allowed, counts.denied, counts.invalid, counts.not_ready)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "tokens").write_text(TOKENS)
    return folder


@given(
    asked=st.one_of(
        st.tuples(st.just(EVALUATION_PATH), EVALUATIONS),
        st.tuples(st.just(EVALUATIONS_PATH), BATCHES),
    ),
    token=st.sampled_from(["", "", "proxy", "root", "other", "nobody"]),
    loaded=st.sampled_from([True, True, True, False]),
)
async def test_any_text_gets_the_answer_of_the_thorough_decoder(
    asked: tuple[str, str], token: str, loaded: bool, folder: Path
) -> None:
    tokens = folder if token else None
    places = [Place(tokens, *ACLS, loaded=loaded) for _ in range(2)]
    for each in places:
        each.grant(ask=PROXY)
    await answers_alike(post(*asked, token), *places)


ESCAPED = json.dumps(evaluation("a", topic="t")).replace('"id": "a"', '"id": "b", "id": "\\u003a"')
"""An escaped colon, which would hide the colon of a repeated key."""


def many(count: int, **changed: dict[str, str]) -> str:
    return json.dumps({"evaluations": [evaluation("a", topic="t") | changed] * count})


@pytest.mark.parametrize(
    ("path", "body", "is_at_once"),
    [
        (EVALUATION_PATH, json.dumps(evaluation("a", topic="t")), True),
        (EVALUATION_PATH, json.dumps(evaluation("a:b", topic="t:")), True),
        (EVALUATION_PATH, json.dumps(evaluation("a", topic="t") | {"x": 1}), True),
        (EVALUATION_PATH, json.dumps(evaluation("a", topic="t") | {"context": None}), True),
        (EVALUATIONS_PATH, many(AT_ONCE_MAX), True),
        (EVALUATIONS_PATH, many(AT_ONCE_MAX + 1), False),
        (EVALUATIONS_PATH, many(2, context={"host": "::1"}), True),
        (EVALUATIONS_PATH, many(0), True),
        (EVALUATION_PATH, ESCAPED, True),
    ],
)  # fmt: skip
async def test_all_but_long_batches_need_one_step(path: str, body: str, is_at_once: bool) -> None:
    assert (
        await answers_alike(post(path, body), Place(None, *ACLS), Place(None, *ACLS)) is is_at_once
    )


@pytest.mark.parametrize("token", ["", "root", "other"])
@pytest.mark.parametrize(
    ("body", "is_at_once"),
    [
        (opa_requests.asked(), True),
        (opa_requests.asked(("action.operation", "?")), True),
        (
            opa_requests.asked(
                ("action.resourcePattern.patternType", "PREFIXED"),
                ("action.resourcePattern.name", ""),
            ),
            False,
        ),
    ],
    ids=["one resource", "unknown operation", "by type"],
)
async def test_opas_questions_about_one_resource_are_answered_at_once(
    body: dict[str, Any], is_at_once: bool, token: str, folder: Path
) -> None:
    is_at_once |= token == "other"  # whose right is missing
    tokens = folder if token else None
    request = post(opa_requests.PATH, json.dumps(body), token)
    assert await answers_alike(request, Place(tokens, *ACLS), Place(tokens, *ACLS)) is is_at_once
