"""The engine finds what a reader does wrong, shrinks it, and repeats itself."""

import logging
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest
import trio

from authorizerd.tls.client_hello import ClientHelloCheck
from authorizerd.tls.errors import TlsError
from tests.fuzz import engine
from tests.fuzz.engine import Result, replay, run
from tests.fuzz.mutations import INPUT_BYTES_MAX, mutate
from tests.fuzz.target import SECRET, Check, Place, Target, alone, check_message, rejected_with
from tests.fuzz.trace import Trace

SEED = b"key=value"


class ReaderError(Exception):
    """The documented error of a reader."""


def fuzzed(check: Check | Place, inputs: int = 300, *, is_place: bool = False) -> Result:
    place: Place = check if is_place else alone(check)  # type: ignore[assignment, arg-type]  # as is_place says
    target = Target(name="test", place=place, seeds=lambda: (SEED,), lines_max=1000)
    return run(target, inputs=inputs)


def kinds(result: Result) -> list[str]:
    return [each.kind.partition(" ")[0] for each in result.failures]


def test_sound_reader_passes() -> None:
    def check(data: bytes) -> None:
        with rejected_with(ReaderError):
            if b"=" not in data:
                raise ReaderError("expected KEY=VALUE, found no =")

    result = fuzzed(check)
    assert (result.inputs, result.failures) == (300, [])


def test_failing_input_is_shrunk_and_fails_again() -> None:
    def check(data: bytes) -> None:
        assert not (b"k" in data and data.count(b"=") > 1)

    [failure] = fuzzed(check, 1000).failures
    assert sorted(failure.data) == sorted(b"k==")
    target = Target(name="test", place=alone(check), seeds=tuple)
    assert [each.kind for each in replay(target, [failure.data, SEED])] == [failure.kind]


def test_each_cause_is_reported_once() -> None:
    def check(data: bytes) -> None:
        if data != SEED:
            raise KeyError(data) if len(data) % 2 else ValueError(data)

    assert sorted(kinds(fuzzed(check))) == ["KeyError", "ValueError"]


def test_same_seed_gives_the_same_inputs() -> None:
    def read_with(seed: int) -> list[bytes]:
        seen: list[bytes] = []
        target = Target(name="test", place=alone(seen.append), seeds=lambda: (SEED,))
        run(target, inputs=50, seed=seed)
        return seen

    assert read_with(1) == read_with(1)
    assert read_with(1) != read_with(2)


def test_inputs_are_bounded() -> None:
    random, data = Random(1), SEED
    for _ in range(2000):
        data = mutate(random, data or SEED, [SEED], [b"word"])
        assert len(data) <= INPUT_BYTES_MAX


def test_step_of_too_much_work_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless loop, too. Only the steps of a generator may be many."""
    monkeypatch.setattr(
        Trace, "_number", lambda trace, code: 1 if code.co_filename == __file__ else -1
    )

    def turn() -> None: ...

    def in_steps(data: bytes) -> Generator[None, None, None]:
        for _ in range(1000):
            turn()
            yield

    def endless(data: bytes) -> None:
        while data != SEED:
            turn()

    assert kinds(fuzzed(in_steps, 5)) == []
    assert kinds(fuzzed(endless, 20)) == ["TooMuchWorkError"]


def test_untraced_input_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CPU_SECONDS_MAX", 0.2)
    monkeypatch.setattr(engine, "TRACED_FIRST", 0)
    monkeypatch.setattr(engine, "TRACED_EVERY", 1 << 30)

    def check(data: bytes) -> None:
        while data != SEED:
            pass

    monkeypatch.setattr(engine, "FAILURES_MAX", 1)
    assert "HangError" in kinds(fuzzed(check, 20))


def test_growth_of_memory_is_found() -> None:
    kept: list[list[int]] = []

    def check(data: bytes) -> None:
        kept.extend([number] for number in range(3000))

    assert kinds(fuzzed(check, 5)) == ["growth"]


def test_open_descriptors_are_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    opened = []

    def check(data: bytes) -> None:
        opened.append(path.open())

    assert kinds(fuzzed(check, 5)) == ["growth"]
    for file in opened:
        file.close()


@pytest.mark.parametrize(
    "log",
    [
        lambda logger: logger.debug("password %s", SECRET),
        lambda logger: logger.error("internal error"),
        lambda logger: logger.warning("odd", exc_info=ValueError("x")),
    ],
)
def test_secret_or_internal_error_in_the_log_is_found(
    log: Callable[[logging.Logger], None],
) -> None:
    assert "LoggedError" in kinds(fuzzed(lambda data: log(logging.getLogger("test")), 3))
    assert kinds(fuzzed(lambda data: logging.getLogger("test").warning("invalid"), 3)) == []


def test_failure_of_a_task_is_found() -> None:
    """The place's own tasks count, such as those of a server."""

    @asynccontextmanager
    async def place() -> AsyncIterator[Check]:
        async with trio.open_nursery() as nursery:

            async def check(data: bytes) -> None:
                if data != SEED:
                    nursery.start_soon(fail)
                await trio.lowlevel.checkpoint()

            yield check

    async def fail() -> None:
        raise KeyError("a task")

    assert kinds(fuzzed(place, is_place=True)) == ["KeyError"]


@pytest.mark.parametrize(
    "text",
    ["", " ", "a\nb", "\x1b[31m", "x" * 3000, f"found {SECRET}", "'utf-8' codec can't decode"],
)
def test_message_that_helps_nobody_is_rejected(text: str) -> None:
    check_message("line 1: expected a number, found 'x'")
    with pytest.raises(AssertionError):
        check_message(text)


def test_inputs_with_new_paths_lead_to_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose next step needs the one before is reached step by step."""

    def check(data: bytes) -> None:
        with suppress(TlsError):
            ClientHelloCheck().check(b"\x16" + data)

    guided = fuzzed(check, 3000).new_paths
    monkeypatch.setattr(engine, "KEPT_MAX", 0)
    assert guided > fuzzed(check, 3000).new_paths
