"""The bodies of decision requests: AuthZEN, OPA, searches, and the frames of the stream.

An independent reader of JSON tells what a body says. A question that says something else could be
allowed in place of the one that was asked.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.protocol.decisions import authzen, authzen_batches, searches, stream
from authorizerd.protocol.decisions.opa import OpaError, decode_question
from authorizerd.protocol.decisions.page_tokens import PageToken, PageTokens, Position
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.opa_requests import CAPTURED_BODY
from tests.fuzz.target import SECRET, frame_contents, reader, rejected_with
from tests.loop.http_requests import evaluation, opa_question

VOCABULARY: Final = authzen.Vocabulary({"user": "User"}, {"topic": 2, "group": 3, "cluster": 4})
WORDS: Final = (
    *(b'"subject":', b'"action":', b'"resource":', b'"context":', b'"host":', b'"properties":'),
    *(b'"evaluations":[', b'{"type":"user","id":"a"}', b'"\\u0073ubject":', b"null", b"1e400"),
    *(b'"options":{"evaluations_semantic":"deny_on_first_deny"}', b'"10.0.0.1"', b'"::1"'),
    *(b'"input":', b'"page":{"token":"', b'"limit":1', b'"as_of":"2026-01-01T00:00:00Z"'),
)


class _RepeatedKeyError(Exception):
    """An object has a key twice."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedKeyError
    return dict(pairs)


def _says(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return a JSON text as the standard library reads it. No key of it occurs twice."""
    return json.loads(body.decode(), object_pairs_hook=_members, parse_int=str, parse_float=str)


def _check_question(question: Question, said: dict[str, Any]) -> None:
    """Check that a question has exactly the names of an AuthZEN document."""
    assert question.principal == f"User:{said['subject']['id']}"
    assert question.resource_name == said["resource"]["id"]
    assert Operation(question.operation).name == said["action"]["name"].upper()
    assert ResourceType(question.resource_type).name == said["resource"]["type"].upper()
    hosts = [(said[key] or {}).get(place) for key, place in (("context", "host"),) if key in said]
    hosts.append(((said["subject"].get("properties")) or {}).get("host"))
    named = {ip_address(host) for host in hosts if host is not None}
    assert (question.host is not None) == bool(named)
    if question.host is not None:
        address = ip_address(question.host)
        assert all(getattr(each, "ipv4_mapped", None) in (None, address) for each in named)


def _check_evaluation(data: bytes) -> None:
    """Only what is there is read."""
    asked = None
    with rejected_with(authzen.AuthZenError):
        decoded = authzen.decode_evaluation(data)
        asked = authzen.build_question(decoded, VOCABULARY)
        authzen.as_of_context(decoded.context)
    if asked is not None:
        _check_question(asked, _says(data))


def _check_evaluations(data: bytes) -> None:
    """A batch that is decoded as a whole is what its evaluations are one by one."""
    with rejected_with(authzen.AuthZenError):
        batch, evaluations = authzen_batches.decode_evaluations(data)
        apart, texts = authzen_batches._decode_apart(data)
        assert batch.defaults == apart.defaults
        for each, text in zip(evaluations, texts, strict=True):
            one = authzen.decode_evaluation(bytes(text))
            assert isinstance(each, msgspec.Raw) or each == one
            whole = authzen_batches.apply_defaults(one, batch.defaults or authzen.Evaluation())
            authzen.build_question(whole, VOCABULARY)


def _check_opa(data: bytes) -> None:
    with rejected_with(OpaError):
        question = decode_question(data)
        said = _says(data)["input"]
        action, principal = said["action"], said["requestContext"]["principal"]
        assert question.principal == f"{principal['principalType']}:{principal['name']}"
        assert Operation(question.operation).name == action["operation"]
        pattern = action["resourcePattern"]
        assert ResourceType(question.resource_type).name == pattern["resourceType"]
        assert (question.resource_name or "") == pattern["name"]


def _check_search(data: bytes) -> None:
    tokens = PageTokens(bytes(32))
    for kind in (searches.SubjectSearch, searches.ResourceSearch, searches.ActionSearch):
        with rejected_with(authzen.AuthZenError):
            search = searches.decode_search(data, kind)
            searches.build_query(search, VOCABULARY)
            if search.page is not None and search.page.token:
                tokens.decode(search.page.token, b"other")


_POSITIONS: Final = (Position(0, "a"), Position(3, "é" * 50, "User:b"), Position(-1, ""))
_PAGE_TOKENS: Final = PageTokens(bytes(range(32)))
_ISSUED: Final = {
    (search, token): PageToken(5, b"s" * 16, position)
    for search in (b"a", b"ab")
    for position in _POSITIONS
    for token in (_PAGE_TOKENS.encode(PageToken(5, b"s" * 16, position), search),)
}
"""What each token contains, by its search and its text."""


def _check_page_token(data: bytes) -> None:
    """Only a token that was made for a search is accepted, and only for this search."""
    text = data.decode("utf-8", "replace")
    for search in (b"a", b"ab", b""):
        with rejected_with(authzen.AuthZenError):
            found = _PAGE_TOKENS.decode(text, search)
            # Base64 ignores the characters that are not its own, and the last unused bits.
            spelled = urlsafe_b64encode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            assert _ISSUED[search, spelled.rstrip(b"=").decode()] == found


def _check_stream(data: bytes) -> None:
    """Every frame is questions, an error for its sender, or the end of the connection."""
    connection = stream.StreamServerConnection(1 << 16, hello_bytes_max=512)
    connection.receive_data(data)
    asked: list[stream.Ask | stream.Unreadable] = []
    with rejected_with(DecodeError):
        first = connection.next_frame()
        assert first is None or isinstance(first, stream.Hello)
        assert SECRET not in repr(first)
        while (frame := connection.next_frame()) is not None:
            assert isinstance(frame, stream.Ask | stream.Unreadable)
            asked.append(frame)
    contents = [*frame_contents(data)][1:]
    for one, content in zip(asked, contents, strict=False):
        if isinstance(one, stream.Ask):
            said = msgspec.msgpack.decode(content)
            assert [one.correlation_id, [[*each] for each in one.questions]] == said[:2]
            assert one.min_offset == (said[2] if len(said) > 2 else -1)


def _check_stream_answers(data: bytes) -> None:
    client = stream.StreamClientConnection(1 << 16)
    client.receive_data(data)
    with rejected_with(DecodeError):
        client.next_greeting()
        while client.next_answer() is not None:
            pass


def _evaluation_seeds() -> Iterator[bytes]:
    yield json.dumps(evaluation()).encode()
    full = evaluation(host="::ffff:10.0.0.1") | {"options": {}, "extra": [1.5, None, "é"]}
    full["subject"] = {"type": "user", "id": "é:", "properties": {"host": "10.0.0.1", "n": 1}}
    yield json.dumps(full).encode()
    yield json.dumps(full, ensure_ascii=False, indent=1).encode()
    yield json.dumps(evaluation() | {"context": {"as_of": 7, "explain": True}}).encode()


def _evaluations_seeds() -> Iterator[bytes]:
    yield from _evaluation_seeds()
    yield json.dumps({"evaluations": [evaluation(n) for n in range(3)]}).encode()
    defaults = evaluation() | {"options": {"evaluations_semantic": "permit_on_first_permit"}}
    yield json.dumps({"evaluations": [{}, {"action": {"name": "WRITE"}}], **defaults}).encode()


def _search_seeds() -> Iterator[bytes]:
    asked = evaluation()
    for name in ("subject", "resource"):
        yield json.dumps(asked | {name: {"type": name.replace("resource", "topic")}}).encode()
    paged = {"page": {"limit": 5, "token": "QUJD" * 10}}
    yield json.dumps({key: asked[key] for key in ("subject", "resource")} | paged).encode()
    yield json.dumps(asked | paged).encode()


def _stream_seeds() -> Iterator[bytes]:
    client = stream.StreamClientConnection(1 << 16)
    asked: list[stream.StreamQuestion] = [
        ("User:a", "10.0.0.1", 3, 2, "t"),
        ("User:b", None, "READ", "TOPIC", "é"),
    ]
    hello = client.hello(SECRET)
    yield hello + client.ask(1, asked) + client.ask(2**40, [], min_offset=9)
    yield client.hello()
    yield hello + client.ask(1, asked * 30)
    encode = msgspec.msgpack.encode
    for frame in (
        [stream.HELLO, 1, None, "more"],
        [1, asked, -1, "more"],
        [1, {"a": 1}],
        {"a": [1]},
    ):
        data = encode(frame)
        yield hello + len(data).to_bytes(4, "big") + data


def _stream_answer_seeds() -> Iterator[bytes]:
    greeting = stream.encode_hello(ErrorCode.NONE, 7)
    yield greeting + stream.encode_answer(1, 0, 7, b"\0\1\2") + stream.encode_answer(2, 89, -1, b"")


DECISION_TARGETS: Final = (
    reader("authzen-evaluation", _check_evaluation, _evaluation_seeds, words=WORDS, weight=40),
    reader("authzen-evaluations", _check_evaluations, _evaluations_seeds, words=WORDS, weight=30),
    reader("authzen-search", _check_search, _search_seeds, words=WORDS),
    reader("opa", _check_opa, lambda: (CAPTURED_BODY, json.dumps(opa_question("")).encode()),
           words=WORDS, weight=30),
    reader("page-tokens", _check_page_token, lambda: (token.encode() for _, token in _ISSUED),
           weight=20),
    reader("stream", _check_stream, _stream_seeds, weight=40),
    reader("stream-answers", _check_stream_answers, _stream_answer_seeds, weight=20),
)  # fmt: skip
