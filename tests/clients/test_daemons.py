"""The client without sockets: its choice among daemons, and its half of the protocol."""

import math
from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.stream import Ask, Hello, StreamServerConnection, encode_answer
from authorizerd_client.backoff import DELAY_SECONDS_MAX, DELAY_SECONDS_MIN, Backoff
from authorizerd_client.daemons import ATTEMPT_SECONDS_MIN, RETURN_SECONDS, Daemon, Daemons, Outcome
from authorizerd_client.errors import (
    AuthorizerdError,
    ConnectionLostError,
    TimedOutError,
    new_answer_error,
)
from authorizerd_client.protocol import QUESTIONS_PER_FRAME, Connection, encode_request, plan_frames
from authorizerd_client.values import Decisions, Question, parse_address
from tests.clients.stand_in import GREETING

NOT_READY = new_answer_error(801)
LOST = ConnectionLostError("broken")


def new_daemons(count: int, *, failover_seconds: float = 1.0) -> tuple[Daemons, list[Daemon]]:
    daemons = Daemons(
        [f"host:{port}" for port in range(1, count + 1)], None, failover_seconds, lambda: 0.5
    )
    return daemons, daemons._all


def test_failed_daemon_is_skipped_for_longer_each_time() -> None:
    daemons, (first, second) = new_daemons(2)
    delays = []
    for _ in range(10):
        daemons.set_aside(first, LOST, 1000)
        assert daemons.choose(1000) is second
        delays.append(first.backoff.next_attempt - 1000)
        first.backoff.next_attempt = 0  # try again at the same time
        second.backoff.fail(0)
        assert daemons.choose(1000) is first
    assert delays[0] <= 0.05
    assert 2 < delays[-1] <= 5
    daemons.record_connection(first, 2000)
    daemons.set_aside(first, NOT_READY, 2000)
    assert first.backoff.next_attempt - 2000 > 1  # only an answer ends the back-off


def test_daemon_that_has_not_failed_comes_first() -> None:
    daemons, (first, second, third) = new_daemons(3)
    daemons.set_aside(first, LOST, 1000)
    daemons.set_aside(second, LOST, 1001)
    assert daemons.choose(2000) is third
    daemons.set_aside(third, LOST, 1002)
    assert [daemons.choose(1000), daemons.choose(2000)] == [None, first]


def test_only_daemon_is_never_set_aside() -> None:
    daemons, (only,) = new_daemons(1)
    daemons.set_aside(only, LOST, 1000)
    assert daemons.choose(1000) is only
    assert daemons.explain() == "not connected: broken"
    assert math.isinf(daemons.limit_attempt(only, 1000, 5))


@pytest.mark.parametrize(("outcome", "with_others", "alone"), [
    (LOST, True, True),
    (TimedOutError("silent"), True, False),
    (NOT_READY, True, False),
    (Decisions(-1, b"\1\3"), True, False),
    (Decisions(-1, b""), True, False),
    (Decisions(5, b""), False, False),
    (Decisions(5, b"\0\1\2"), False, False),
    *((new_answer_error(code), False, False) for code in (7, 31, 42, 58, 89, -7)),
])  # fmt: skip
def test_question_is_repeated_if_it_can_help(
    outcome: Outcome, with_others: bool, alone: bool
) -> None:
    several, (first, second) = new_daemons(2)
    single, (only,) = new_daemons(1)
    assert several.should_repeat(first, outcome, 1000) is with_others
    assert single.should_repeat(only, outcome, 1000) is alone
    several.set_aside(second, LOST, 1000)
    is_about_first = not isinstance(outcome, ConnectionLostError | TimedOutError)
    assert several.should_repeat(first, outcome, 1000) is (with_others and not is_about_first)


@pytest.mark.parametrize(
    ("remaining", "limit"), [(60, 1), (3, 1), (0.9, 0.3), (0.03, ATTEMPT_SECONDS_MIN)]
)
def test_attempt_leaves_time_for_the_other_daemons(remaining: float, limit: float) -> None:
    daemons, (first, second, third) = new_daemons(3)
    assert daemons.limit_attempt(first, 1000, remaining) == pytest.approx(limit)
    assert math.isinf(daemons.limit_attempt(first, 1000, remaining, is_last=True))
    daemons.set_aside(second, LOST, 1000)
    daemons.set_aside(third, LOST, 1000)
    assert math.isinf(daemons.limit_attempt(first, 1000, remaining))


def test_client_returns_to_the_first_daemon_that_is_not_set_aside() -> None:
    daemons, (first, second, third) = new_daemons(3)
    daemons.record_connection(third, 1000)
    due = 1000 + RETURN_SECONDS * 1.5
    assert daemons.choose_return(first, due) is None
    assert daemons.choose_return(third, due - 0.1) is None
    assert daemons.choose_return(third, due) is first
    assert daemons.choose_return(third, due) is None  # another task has just tried
    daemons.set_aside(first, LOST, 1200)
    assert daemons.choose_return(second, 1200) is None
    daemons.set_aside(first, LOST, 1300)
    assert daemons.choose_return(third, 1300) is second


def test_error_names_the_reason_of_each_address() -> None:
    daemons, (first, _) = new_daemons(2)
    daemons.set_aside(first, NOT_READY, 1000)
    assert daemons.explain() == (
        "not connected: host:1: the ACLs are not loaded; host:2: no attempt to connect was made"
    )


BYTES_MAX = 100_000
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
codes = st.integers(-(2**63), 2**63 - 1) | texts
questions = st.tuples(texts, st.none() | texts, codes, codes, texts)


@given(
    token=st.none() | texts,
    asked=st.lists(st.tuples(st.lists(questions, max_size=3), st.integers(-1, 2**63 - 1))),
)
def test_daemon_reads_what_the_client_sends(
    token: str | None,
    asked: list[tuple[list[tuple[str, str | None, int | str, int | str, str]], int]],
) -> None:
    client, server = Connection(BYTES_MAX), StreamServerConnection(BYTES_MAX)
    server.receive_data(client.encode_hello(token))
    assert server.next_frame() == Hello("hello", 1, token)
    for number, (group, min_offset) in enumerate(asked, 1):
        exchange, frame = client.ask(encode_request(group, min_offset, BYTES_MAX))
        server.receive_data(frame)
        assert server.next_frame() == Ask(number, group, min_offset)
        assert exchange.correlation_id == number


@given(
    groups=st.lists(st.binary(max_size=5), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 200), max_size=6),
)
def test_answers_settle_exchanges_however_split(groups: list[bytes], cuts: list[int]) -> None:
    client = Connection(BYTES_MAX)
    question = Question("User:a", None, 3, 2, "t")
    exchanges = [
        client.ask(encode_request([question] * len(group), -1, BYTES_MAX))[0] for group in groups
    ]
    data = GREETING + b"".join(
        encode_answer(number, 0, number, group) for number, group in enumerate(groups, 1)
    )
    settled = []
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(bounds):
        if start < end:
            settled += client.receive_data(data[start:end])
    assert settled == exchanges
    assert (client.offset, [*client.in_flight]) == (7, [])
    for number, (group, exchange) in enumerate(zip(groups, exchanges, strict=True), 1):
        assert exchange.get_decisions() == Decisions(number, group)


@given(data=st.binary(max_size=60), has_greeted=st.booleans())
def test_any_bytes_are_decisions_or_a_named_error(data: bytes, has_greeted: bool) -> None:
    client = Connection(1000)
    if has_greeted:
        client.receive_data(GREETING)
    try:
        client.receive_data(data)
    except AuthorizerdError as error:
        client.end(partial(copy, error))
        with pytest.raises(type(error)):
            client.receive_data(b"x")


def test_end_settles_every_exchange() -> None:
    """Each gets a separate exception, and the connection accepts no more questions."""
    client = Connection(BYTES_MAX)
    request = encode_request([], -1, BYTES_MAX)
    exchanges = [client.ask(request)[0] for _ in range(3)]
    assert client.end(lambda: ConnectionLostError("first")) == exchanges
    client.end(lambda: ConnectionLostError("second"))
    errors = []
    calls: list[Callable[[], object]] = [each.get_decisions for each in exchanges]
    calls.append(partial(client.ask, request))
    for call in calls:
        with pytest.raises(ConnectionLostError, match="first") as raised:
            call()
        errors.append(raised.value)
    assert len(set(map(id, errors))) == 4


def test_copied_error_keeps_its_text_and_attributes() -> None:
    for code in (7, 31, 35, 42, 58, 89, 801, 5):
        error = new_answer_error(code)
        copied = copy(error)
        assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


@given(names=st.lists(texts | st.sampled_from(["x" * 300, "é" * 150]), max_size=700))
def test_planned_frames_have_every_name_and_fit(names: list[str]) -> None:
    frames = list(plan_frames(Question("User:a", None, "READ", "TOPIC", ""), names, 1000))
    assert [question.resource_name for frame in frames for question in frame] == names
    for frame in frames:
        assert len(encode_request(frame, 2**62, 1000).questions) <= 1000
        assert 0 < len(frame) <= QUESTIONS_PER_FRAME


def test_delays_double_up_to_a_limit_and_differ() -> None:
    for jitter, share in ((0.0, 0.5), (1.0, 1.0)):
        backoff = Backoff(partial(float, jitter))
        delays = []
        for _ in range(2000):
            backoff.fail(100.0)
            delays.append(backoff.next_attempt - 100)
        assert delays[:3] == pytest.approx([DELAY_SECONDS_MIN * share * n for n in (1, 2, 4)])
        assert max(delays) == pytest.approx(DELAY_SECONDS_MAX * share)
        backoff.succeed()
        assert backoff.next_attempt < 0


@pytest.mark.parametrize(("text", "path", "host", "port"), [
    ("tcp://127.0.0.1:8183", None, "127.0.0.1", 8183), ("example.org:1", None, "example.org", 1),
    ("tcp://[::1]:8183", None, "::1", 8183), ("unix:/run/a:1", "/run/a:1", "", 0),
])  # fmt: skip
def test_address_is_parsed(text: str, path: str | None, host: str, port: int) -> None:
    address = parse_address(text)
    assert (address.path, address.host, address.port) == (path, host, port)
