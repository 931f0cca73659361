"""Scripted servers in a thread, for tests that block while a daemon process talks to them."""

import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Concatenate, Generic, ParamSpec, TypeVar

import trio

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

SECONDS_MAX = 30.0


class ScriptedThread(Generic[S]):
    """Let the thread of the servers do what a test asks for. See ``running_scripted``."""

    def __init__(self, scripted: S, token: trio.lowlevel.TrioToken) -> None:
        self.scripted = scripted
        self.token = token

    def do(
        self, action: Callable[Concatenate[S, P], T], *arguments: P.args, **keywords: P.kwargs
    ) -> T:
        """Return the result of ``action`` for the servers: ``do(ScriptedQuorum.elect, 2)``."""
        call = partial(action, self.scripted, *arguments, **keywords)
        return trio.from_thread.run_sync(call, trio_token=self.token)


@contextmanager
def running_scripted(
    begin: Callable[[trio.Nursery], Awaitable[S]], name: str
) -> Iterator[ScriptedThread[S]]:
    """Run what ``begin`` starts in a nursery, in a thread of this name, until the block ends."""
    begun: Future[ScriptedThread[S]] = Future()
    ended: list[trio.CancelScope] = []

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            scripted = await begin(nursery)
            ended.append(nursery.cancel_scope)
            begun.set_result(ScriptedThread(scripted, trio.lowlevel.current_trio_token()))
            await trio.sleep_forever()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            if not begun.done():
                begun.set_exception(error)
            raise

    thread = threading.Thread(target=run, name=name)
    thread.start()
    try:
        yield begun.result(SECONDS_MAX)
    finally:
        if begun.done() and begun.exception() is None:
            begun.result().do(lambda _: ended[0].cancel())
        thread.join(SECONDS_MAX)
        assert not thread.is_alive()
