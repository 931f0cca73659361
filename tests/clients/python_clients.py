"""Both Python clients behind the same async methods, so that one test covers both."""

from __future__ import annotations

from functools import partial
from typing import Any

import trio

from authorizerd_client import Decisions, blocking
from authorizerd_client import trio as for_trio

SECONDS_MAX = 60


class BlockingInThread:
    """The blocking client; each call runs in a thread."""

    def __init__(self, address: str | list[str], **options: Any) -> None:  # noqa: ANN401 - the client's options
        self._client = blocking.Client(address, **options)

    @property
    def offset(self) -> int:
        return self._client.offset

    async def connect(self) -> None:
        with trio.fail_after(SECONDS_MAX):
            await trio.to_thread.run_sync(self._client.connect, abandon_on_cancel=True)

    async def decide(self, *arguments: Any, **options: Any) -> bool:  # noqa: ANN401 - as above
        ask = partial(self._client.decide, *arguments, **options)
        with trio.fail_after(SECONDS_MAX):
            return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)

    async def decide_many(self, *arguments: Any, **options: Any) -> Decisions:  # noqa: ANN401 - as above
        ask = partial(self._client.decide_many, *arguments, **options)
        with trio.fail_after(SECONDS_MAX):
            return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)

    async def filter_allowed(self, *arguments: Any, **options: Any) -> list[str]:  # noqa: ANN401 - as above
        ask = partial(self._client.filter_allowed, *arguments, **options)
        with trio.fail_after(SECONDS_MAX):
            return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)

    async def read_offset(self) -> int:
        with trio.fail_after(SECONDS_MAX):
            return await trio.to_thread.run_sync(self._client.read_offset, abandon_on_cancel=True)

    def require_offset(self, offset: int) -> None:
        self._client.require_offset(offset)

    def close(self) -> None:
        self._client.close()


AnyClient = type[BlockingInThread] | type[for_trio.Client]
CLIENTS: dict[str, AnyClient] = {"blocking": BlockingInThread, "trio": for_trio.Client}
