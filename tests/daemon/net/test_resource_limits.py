"""The rates of new connections, the limit of files, and the memory budget."""

import logging
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.daemon.net.creation_rate import CreationRate, ListenerRates
from authorizerd.daemon.net.fd_limit import OTHER_FILES, allow_open_files, divide
from authorizerd.daemon.net.memory_budget import MemoryBudget, Reservation

BURST_S = 10


def new_rate(per_second: int) -> CreationRate:
    return CreationRate(per_second, BURST_S, now=0.0)


def test_burst_is_accepted_at_once_and_then_the_rate_applies() -> None:
    rate = new_rate(5)
    delays = [rate.reserve(now=0.0) for _ in range(BURST_S * 5 + 3)]
    assert delays[: BURST_S * 5] == [0.0] * (BURST_S * 5)
    assert delays[BURST_S * 5 :] == pytest.approx([0.2, 0.4, 0.6])


def test_unused_part_of_the_rate_is_not_kept_longer_than_the_burst() -> None:
    rate = new_rate(1)
    for _ in range(BURST_S):
        rate.reserve(now=0.0)
    assert [rate.reserve(now=1000.0) > 0 for _ in range(BURST_S + 1)] == [False] * BURST_S + [True]


def test_changed_rate_applies_to_the_next_connection() -> None:
    """A higher rate does not give back the tokens that were taken."""
    rate = new_rate(1)
    for _ in range(BURST_S):
        assert rate.reserve(now=0.0) == 0.0
    rate.change(4, now=0.0)
    assert rate.reserve(now=0.0) == pytest.approx(0.25)
    rate.change(2**31 - 1, now=1.0)
    assert rate.reserve(now=1.001) == 0.0
    rate.change(1, now=2.0)
    assert [rate.reserve(now=2.0) > 0 for _ in range(BURST_S + 1)] == [False] * BURST_S + [True]


@given(
    per_second=st.integers(1, 50),
    gaps=st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=200),
)
def test_no_window_exceeds_burst_and_rate(per_second: int, gaps: list[float]) -> None:
    """Connections that wait one after another are served at most at the rate, after the burst."""
    rate, now, served = new_rate(per_second), 0.0, list[float]()
    for gap in gaps:
        now += gap / per_second
        now += rate.reserve(now)  # the next is accepted only after this one is served
        served.append(now)
    for first, start in enumerate(served):
        for count, end in enumerate(served[first:], 1):
            assert count <= per_second * (BURST_S + end - start) + 1e-3


@pytest.mark.parametrize(("own", "shared"), [(2, 1000), (1000, 2)])
def test_the_lower_of_both_limits_counts(own: int, shared: int) -> None:
    rates = ListenerRates(new_rate(own), new_rate(shared))
    for _ in range(2 * BURST_S):
        assert rates.reserve(now=0.0) == 0.0
    assert rates.reserve(now=0.0) == pytest.approx(0.5)


def test_listeners_share_one_limit() -> None:
    """Each listener also has its own limit, which the other's connections do not use up."""
    shared = new_rate(3)
    one, other = (ListenerRates(new_rate(2), shared) for _ in range(2))
    assert [one.reserve(now=0.0) for _ in range(20)] == [0.0] * 20
    assert [other.reserve(now=0.0) for _ in range(10)] == [0.0] * 10
    assert other.reserve(now=0.0) == pytest.approx(1 / 3)  # of the shared limit
    assert one.reserve(now=0.0) == pytest.approx(2 / 3)


Limits = tuple[int, int]

WANTED = {"a": 1024, "b": 2048, "c": 1024}


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[Limits]:
    """The simulated limits of the system, the newest last."""
    known: list[Limits] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: known[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: known.append(limit))
    return known


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 1 << 20), (4096 + OTHER_FILES, 1 << 20)),
        ((1024, resource.RLIM_INFINITY), (4096 + OTHER_FILES, resource.RLIM_INFINITY)),
        ((4096 + OTHER_FILES, 1 << 20), (4096 + OTHER_FILES, 1 << 20)),
        ((1 << 20, 1 << 20), (1 << 20, 1 << 20)),
        (
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
        ),
    ],
)
def test_limit_of_open_files_covers_connections_and_the_log(
    limits: list[Limits], caplog: pytest.LogCaptureFixture, before: Limits, after: Limits
) -> None:
    limits.append(before)
    assert allow_open_files(WANTED) == WANTED
    assert limits[-1] == after
    assert not caplog.records


@pytest.mark.parametrize(
    ("most", "granted"),
    [
        (2048, {"a": 640, "b": 640, "c": 640}),
        (64, {"a": 5, "b": 6, "c": 5}),
        (4, dict.fromkeys(WANTED, 1)),
    ],
)
def test_connections_are_capped_by_too_low_a_hard_limit(
    limits: list[Limits], caplog: pytest.LogCaptureFixture, most: int, granted: dict[str, int]
) -> None:
    """Files are kept for the log; the warning has the required and the actual limit."""
    limits.append((min(256, most), most))
    with caplog.at_level(logging.WARNING):
        assert allow_open_files(WANTED) == granted
    assert limits[-1] == (most, most)
    (record,) = caplog.records
    assert f"the limit of open files is {most}," in record.message
    assert str(4096 + OTHER_FILES) in record.message
    assert f"at most {max(granted.values())} connections" in record.message


@pytest.mark.parametrize(
    ("wanted", "total", "granted"),
    [
        ({"a": 10, "b": 2, "c": 10}, 16, {"a": 7, "b": 2, "c": 7}),
        ({"a": 10, "b": 2}, 100, {"a": 10, "b": 2}),
        ({"a": 10, "b": 2}, 0, {"a": 1, "b": 1}),
        ({}, 5, {}),
    ],
)
def test_unused_part_of_an_endpoint_goes_to_the_others(
    wanted: dict[str, int], total: int, granted: dict[str, int]
) -> None:
    """Each endpoint gets its own part, and at least one connection."""
    assert divide(wanted, total) == granted


BYTES_MAX = 10_000

holdings = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3 * BYTES_MAX), st.booleans()), max_size=40
)


@given(holdings)
def test_budget_is_exceeded_by_one_answer_only(wanted: list[tuple[int, int, bool]]) -> None:
    """All released memory can be reserved again."""
    budget = MemoryBudget(BYTES_MAX)
    reservations = [Reservation(budget) for _ in range(4)]
    largest_answer = 0
    for index, size, is_answer in wanted:
        reservation, before = reservations[index], reservations[index].size
        if is_answer:
            largest_answer = max(largest_answer, size)
            held = reservation.reserve_answer(size)
            assert reservation.size == (before + size if held else before)
        else:
            held = reservation.reserve(size)
            assert reservation.size == (size if held else before)
            assert held or size > before
        assert budget.bytes_held == sum(max(0, each.size - FREE_BYTES) for each in reservations)
        assert budget.bytes_held <= BYTES_MAX + FREE_BYTES + largest_answer
    for reservation in reservations:
        assert reservation.reserve(0)
    assert budget.bytes_held == 0


def test_first_bytes_are_free() -> None:
    budget = MemoryBudget(0)
    assert Reservation(budget).reserve(FREE_BYTES)
    assert not Reservation(budget).reserve(FREE_BYTES + 1)


def test_one_answer_may_exceed_the_budget() -> None:
    """Otherwise it could never be sent. The next one is refused at once."""
    budget = MemoryBudget(BYTES_MAX)
    first, second = Reservation(budget), Reservation(budget)
    assert first.reserve_answer(5 * BYTES_MAX)
    assert not second.reserve_answer(2 * FREE_BYTES)
    assert not second.reserve(FREE_BYTES + 1)
    assert first.reserve(0)
    assert second.reserve_answer(2 * FREE_BYTES)
