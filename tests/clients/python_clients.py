"""Both Python clients behind the same async methods, so that one test covers both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import trio

from authorizerd_client import Decisions, blocking
from authorizerd_client import trio as for_trio

SECONDS_MAX = 60
T = TypeVar("T")


class BlockingInThread:
    """The blocking client; each call runs in a thread."""

    def __init__(self, address: str | list[str], **options: Any) -> None:  # noqa: ANN401 - the client's options
        self._client = blocking.Client(address, **options)

    @property
    def offset(self) -> int:
        return self._client.offset

    async def connect(self) -> None:
        await _run(self._client.connect)

    async def decide(self, *arguments: object, **options: object) -> bool:
        return await _run(self._client.decide, *arguments, **options)

    async def decide_many(self, *arguments: object, **options: object) -> Decisions:
        return await _run(self._client.decide_many, *arguments, **options)

    async def filter_allowed(self, *arguments: object, **options: object) -> list[str]:
        return await _run(self._client.filter_allowed, *arguments, **options)

    async def read_offset(self) -> int:
        return await _run(self._client.read_offset)

    def require_offset(self, offset: int) -> None:
        self._client.require_offset(offset)

    def close(self) -> None:
        self._client.close()


async def _run(call: Callable[..., T], *arguments: object, **options: object) -> T:
    with trio.fail_after(SECONDS_MAX):
        return await trio.to_thread.run_sync(
            partial(call, *arguments, **options), abandon_on_cancel=True
        )


AnyClient = BlockingInThread | for_trio.Client
NewClient = Callable[..., AnyClient]
CLIENTS: dict[str, NewClient] = {"blocking": BlockingInThread, "trio": for_trio.Client}
