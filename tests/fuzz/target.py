"""A reader to be fuzzed, and what its errors must look like."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from tests.loop.limits import LIMITS

SECRET: Final = "s3cr3t"
"""Part of every secret in the seeds. No error and no log line may contain it."""
MESSAGE_CHARACTERS_MAX: Final = 2_000
OWN_CHARACTERS_MAX: Final = 100_000
"""In errors about an operator's own file, which quote long names. The log cuts its lines."""
LINES_IN_THREAD_MAX: Final = 40 * LIMITS["lines"]
"""The limit of readers that run in a thread or a command: they need only end."""

_INTERNAL: Final = re.compile(
    r"Traceback|object has no attribute|NoneType|<class '|codec can't|object at 0x|subscriptable"
)
"""Texts of Python's own errors, which help no operator."""

Check: TypeAlias = Callable[[bytes], Generator[Any, Any, Any] | Awaitable[object] | None]
"""Reads an input, and raises an exception that is not the reader's own if anything is wrong.

A generator's steps are those of the event loop: each may take only so many lines.
"""
Place: TypeAlias = Callable[[], AbstractAsyncContextManager[Check]]
"""Opens what a check needs, such as a daemon."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A reader.

    Attributes:
        seeds: valid inputs. All others are made from them.
        words: texts with a meaning for the reader.
        weight: how many inputs it gets, compared with other targets.
        lines_max: of one step.
        is_traced: False if its place counts work itself.
    """

    name: str
    place: Place
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[bytes, ...] = ()
    weight: float = 10
    lines_max: int = LIMITS["lines"]
    is_traced: bool = True


def alone(check: Check) -> Place:
    """Return the place of a check that needs nothing."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Check]:
        yield check

    return opened


def reader(
    name: str,
    check: Check,
    seeds: Callable[[], Iterable[bytes]],
    *,
    words: tuple[bytes, ...] = (),
    weight: float = 10,
    lines_max: int = LIMITS["lines"],
) -> Target:
    """Return the target of a reader that needs no place."""
    return Target(
        name=name,
        place=alone(check),
        seeds=seeds,
        words=words,
        weight=weight,
        lines_max=lines_max,
    )


in_thread: Final = partial(reader, lines_max=LINES_IN_THREAD_MAX)
"""Returns the target of a reader that runs in a thread or a command."""


def in_pieces(data: bytes) -> list[bytes]:
    """Return a short input byte by byte, and a long one in a few hundred pieces at most."""
    size = 1 if len(data) < 64 else 211
    return [data[at : at + size] for at in range(0, len(data), size)]


def frame_contents(data: bytes) -> Iterator[bytes]:
    """Yield the contents of frames, as their sizes say."""
    while len(data) > 4:
        end = 4 + int.from_bytes(data[:4])
        yield data[4:end]
        data = data[end:]


@contextmanager
def rejected_with(
    *errors: type[BaseException], lines: int = 1, characters: int = MESSAGE_CHARACTERS_MAX
) -> Iterator[None]:
    """Accept the reader's own errors if their texts have at most so many lines and characters."""
    try:
        yield
    except errors as error:
        check_message(str(error), lines, characters)


def check_message(text: str, lines: int = 1, characters: int = MESSAGE_CHARACTERS_MAX) -> None:
    """Check that a text says something, on printable lines of bounded length, and no secret."""
    assert text.strip(), "an error without a text"
    assert SECRET not in text, f"a secret is shown: {text[:300]}"
    assert not _INTERNAL.search(text), f"an internal text is shown: {text[:300]}"
    found = text.splitlines()
    assert len(found) <= lines, f"expected {lines} lines, found {len(found)}: {text[:300]!r}"
    for line in found:
        assert line.isprintable(), f"not printable: {line[:300]!r}"
        assert len(line) <= characters, f"{len(line)} characters: {line[:300]}"
