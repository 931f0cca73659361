"""Tokens for the client's own logins: when they are requested, and what is sent."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from authorizerd.config.oauth import RefreshRule, TokenLogIn
from authorizerd.config.oauth_url import parse_document_url
from authorizerd.config.tls import TlsSettings
from authorizerd.kafka_client.documents import (
    DOCUMENT_BYTES_MAX,
    DocumentError,
    HttpAnswer,
    Limits,
    exchange,
    read_file,
)
from authorizerd.kafka_client.errors import Cause, RequestFailedError
from authorizerd.kafka_client.log_in import open_node
from authorizerd.kafka_client.oauth import TokenSource, write_first_message
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_cluster import KafkaCluster, addresses, answer
from tests.kafka_client.tls_cluster import new_settings
from tests.support.certificates import Authority
from tests.support.issuer import CLIENT, Issuer, claims_of, running_issuer, sign

URL = parse_document_url("https://issuer.test/token?tenant=hidden")
SETTINGS = TokenLogIn(
    url=URL, client_id=CLIENT[0], client_secret=CLIENT[1], scope="acls",
    refresh=RefreshRule(min_period_s=60, buffer_s=300),
)  # fmt: skip
[NODE] = addresses(1)


class ScriptedIssuer:
    """Gives the next of its answers: a status with a body, or a reason why there is none.

    None: there is no answer within the limit.
    """

    def __init__(self, *answers: HttpAnswer | str | None) -> None:
        self.answers = list(answers)
        self.asked_at: list[float] = []
        self.limits: list[Limits] = []

    async def ask(self, *_: object, limits: Limits, **__: object) -> HttpAnswer:
        self.asked_at.append(trio.current_time())
        self.limits.append(limits)
        given = self.answers.pop(0)
        await trio.sleep(limits.read_ms / 1000 if given is None else 0)
        if not isinstance(given, HttpAnswer):
            raise DocumentError(given)
        return given


def gives(token: str, **more: object) -> HttpAnswer:
    return HttpAnswer(200, json.dumps({"access_token": token, **more}).encode())


def token_of(user: str, seconds: float = 3600) -> str:
    return sign(claims_of(user, seconds=seconds))


def source(issuer: ScriptedIssuer, settings: TokenLogIn = SETTINGS) -> TokenSource:
    return TokenSource(settings, issuer.ask, chance=lambda: 0.5, clock=trio.current_time)


async def test_token_is_kept_until_it_is_time_for_another(autojump_clock: MockClock) -> None:
    first, second = token_of("first"), token_of("second")
    issuer = ScriptedIssuer(gives(first), gives(second))
    tokens = source(issuer)
    async with trio.open_nursery() as nursery:  # requests are not repeated for each caller
        for _ in range(5):
            nursery.start_soon(tokens.get)
    await trio.sleep(2900)
    assert await tokens.get() == first
    await trio.sleep(100)
    assert await tokens.get() == second
    assert len(issuer.asked_at) == 2


async def test_valid_token_stays_in_use_while_the_issuer_fails(autojump_clock: MockClock) -> None:
    first, second = token_of("first"), token_of("second")
    issuer = ScriptedIssuer(gives(first), "unreachable", HttpAnswer(503, b""), gives(second))
    tokens = source(issuer)
    await tokens.get()
    await trio.sleep(3200)
    assert await tokens.get() == first
    assert await tokens.get() == first  # without another request: the last one has just failed
    assert len(issuer.asked_at) == 2
    await trio.sleep(0.15)
    assert await tokens.get() == first
    await trio.sleep(1)
    assert await tokens.get() == second
    # A login that has a valid token does not wait long for an issuer that does not answer.
    assert issuer.limits == [Limits(), *[Limits(1000, 1000)] * 3]


async def test_token_that_ends_during_a_renewal_is_replaced(autojump_clock: MockClock) -> None:
    """Its login waits as long as one without a token."""
    second = token_of("second")
    issuer = ScriptedIssuer(gives(token_of("first")), None, gives(second))
    tokens = source(issuer)
    await tokens.get()
    await trio.sleep(3599.5)
    assert await tokens.get() == second
    assert issuer.limits[1:] == [Limits(1000, 1000), Limits()]


async def test_failed_requests_are_repeated_with_growing_pauses(autojump_clock: MockClock) -> None:
    issuer = ScriptedIssuer(*["unreachable"] * 6, gives(token_of("alice")))
    settings = replace(SETTINGS, retry_ms=100, retry_max_ms=10_000)
    started = trio.current_time()
    await source(issuer, settings).get()
    times = [at - started for at in issuer.asked_at]
    assert times == pytest.approx([0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3])


async def test_issuer_that_fails_for_too_long_is_named(autojump_clock: MockClock) -> None:
    tokens = source(ScriptedIssuer(*["https://issuer.test/token: unreachable"] * 8))
    with pytest.raises(RequestFailedError, match=r"issuer\.test/token: unreachable") as failure:
        await tokens.get()
    assert failure.value.cause is Cause.ISSUER


async def test_token_after_its_end_is_not_used(autojump_clock: MockClock) -> None:
    tokens = source(ScriptedIssuer(gives(token_of("alice")), *["unreachable"] * 8))
    await tokens.get()
    await trio.sleep(3600)
    with pytest.raises(RequestFailedError):
        await tokens.get()


@pytest.mark.parametrize(("given", "said"), [
    (HttpAnswer(401, b'{"error": "invalid_client", "error_description": "who\\u001b?"}'),
     r"status 401: invalid_client: who\x1b?"),
    (HttpAnswer(400, b"<html>"), "status 400"),
    (HttpAnswer(200, b"[]"), "expected an access_token"),
    (gives("a b"), "expected a token"),
    (gives("opaque"), "with the claim exp"),
    (gives(token_of("alice", -5)), "has expired: check this machine's clock"),
])  # fmt: skip
async def test_refusal_is_final_and_named_without_secrets(
    autojump_clock: MockClock, given: HttpAnswer, said: str
) -> None:
    issuer = ScriptedIssuer(given)
    with pytest.raises(RequestFailedError) as failure:
        await source(issuer).get()
    assert said in str(failure.value)
    assert "hidden" not in str(failure.value)
    assert CLIENT[1] not in repr(SETTINGS)
    assert len(issuer.asked_at) == 1


async def test_opaque_token_ends_when_the_issuer_says(autojump_clock: MockClock) -> None:
    issuer = ScriptedIssuer(gives("opaque", expires_in=1000), gives("next", expires_in=1000))
    tokens = source(issuer)
    assert await tokens.get() == "opaque"
    await trio.sleep(701)
    assert await tokens.get() == "next"


@pytest.mark.parametrize("expires_in", [10**400, float("nan"), float("inf"), "300", True, None])
async def test_token_without_an_end_is_refused(expires_in: object) -> None:
    """It would be used forever."""
    tokens = source(ScriptedIssuer(gives("opaque", expires_in=expires_in)))
    with pytest.raises(RequestFailedError, match="with the claim exp"):
        await tokens.get()


async def test_token_of_a_file_is_read_for_each_login(tmp_path: Path) -> None:
    path = tmp_path / "token"
    settings = TokenLogIn(url=parse_document_url(f"file://{path}"))
    tokens = TokenSource(settings)
    for user in ("first", "second"):
        token = token_of(user)
        path.write_text(f"{token}\n")
        assert await tokens.get() == token
    path.write_bytes(b"x" * (DOCUMENT_BYTES_MAX + 1))
    with pytest.raises(DocumentError, match="at most"):
        await read_file(settings.url)
    path.unlink()
    assert await tokens.get() == token  # still valid


async def test_token_and_extensions_are_sent(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = KafkaCluster(nursery)
    taken = answer(error_code=0, error_message=None, auth_bytes=b"", session_lifetime=timedelta())
    node = cluster.add(NODE, answer(error_code=0, mechanisms=("OAUTHBEARER",)), taken)
    token = token_of("alice")
    settings = replace(SETTINGS, extensions={"pool": "p 1"})
    message = write_first_message(token, settings)
    assert message == f"n,,\x01auth=Bearer {token}\x01pool=p 1\x01\x01".encode()
    await open_node(NODE, source(ScriptedIssuer(gives(token)), settings), "tests", cluster.connect)
    assert [request.api_key.name for request in node.asked][1:] == [
        "SASL_HANDSHAKE",
        "SASL_AUTHENTICATE",
    ]


async def test_refused_token_is_not_used_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The server first tells the reason, and then its error (RFC 7628)."""
    cluster = KafkaCluster(nursery)
    told = answer(error_code=0, error_message=None, auth_bytes=b"{}", session_lifetime=timedelta())
    refused = answer(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="{}", auth_bytes=b"",
        session_lifetime=timedelta(),
    )  # fmt: skip
    chosen = answer(error_code=0, mechanisms=("OAUTHBEARER",))
    cluster.add(NODE, chosen, told, refused)
    issuer = ScriptedIssuer(gives(token_of("old")), gives(token_of("new")))
    tokens = source(issuer)
    with pytest.raises(RequestFailedError) as failure:
        await open_node(NODE, tokens, "tests", cluster.connect)
    assert failure.value.cause is Cause.CREDENTIALS
    await tokens.get()
    assert len(issuer.asked_at) == 2


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def issuer(authority: Authority) -> Iterator[Issuer]:
    with running_issuer(authority) as issuer:
        yield issuer


def trusting(authority: Authority | None) -> TlsSettings:
    stores = {} if authority is None else {"truststore_location": authority.ca_file}
    return new_settings(**stores)


async def test_token_comes_over_verified_tls(
    issuer: Issuer, authority: Authority, tmp_path: Path
) -> None:
    url = parse_document_url(f"{issuer.url}/token")
    settings = replace(SETTINGS, url=url, tls=trusting(authority))
    assert (await TokenSource(settings).get()).count(".") == 2
    assert issuer.scopes == ["acls"]
    before = len(issuer.asked)
    for other in (Authority(tmp_path, "other"), None):
        with pytest.raises(DocumentError, match="certificate verify failed"):
            await exchange(url, trusting(other), headers={})
    wrong = replace(settings, client_secret="wrong")
    with pytest.raises(RequestFailedError, match="status 401: invalid_client"):
        await TokenSource(wrong).get()
    assert len(issuer.asked) == before + 1


@contextmanager
def _expect(reason: str) -> Iterator[None]:
    with pytest.raises(DocumentError, match=reason):
        yield


@pytest.mark.parametrize(("sent", "expected"), [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"{}"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"{}"),
    (b"HTTP/1.0 200 OK\r\n\r\n{}", b"{}"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", "HTTP answer"),
    (b"HTTP/1.1 302 Found\r\nLocation: http://other\r\nContent-Length: 0\r\n\r\n", b""),
    (b"", "HTTP answer|broke"), (b"SSH-2.0\r\n\r\n", "HTTP answer"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (DOCUMENT_BYTES_MAX + 1), "too large"),
])  # fmt: skip
async def test_answer_ends_where_it_says(
    nursery: trio.Nursery, sent: bytes, expected: bytes | str
) -> None:
    """A redirection is not followed, so its status is the answer."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        with trio.move_on_after(5):
            try:
                for at in range(0, len(sent), 100_000):
                    await stream.send_all(sent[at : at + 100_000])
                await stream.send_eof()
            except trio.BrokenResourceError:
                pass

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, listeners)
    url = parse_document_url(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/keys")
    if isinstance(expected, str):
        with _expect(expected):
            await exchange(url, None, headers={})
    else:
        assert (await exchange(url, None, headers={})).body == expected
    nursery.cancel_scope.cancel()


async def test_answer_must_be_complete_in_time(nursery: trio.Nursery) -> None:
    """A server that sends a byte from time to time does not hold the client."""

    async def drip(stream: trio.SocketStream) -> None:
        while True:
            await stream.send_all(b"H")
            await trio.sleep(0.01)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, drip, listeners)
    url = parse_document_url(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/keys")
    with _expect("no complete answer within 200 ms"):
        await exchange(url, None, headers={}, limits=Limits(read_ms=200))
    nursery.cancel_scope.cancel()


async def test_answer_may_take_longer_than_connecting(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    ours, theirs = memory_stream_pair()

    async def connect(*_: object) -> trio.abc.Stream:
        return ours

    async def serve() -> None:
        await theirs.receive_some()
        await trio.sleep(5)
        await theirs.send_all(b"HTTP/1.1 204 OK\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setattr("authorizerd.kafka_client.documents._connect", connect)
    nursery.start_soon(serve)
    answer = await exchange(URL, None, headers={}, limits=Limits(1000, read_ms=10_000))
    assert answer.status == 204
