"""A scripted quorum in a thread, for tests that block while a daemon process follows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import trio

from tests.support.scripted_quorum import ScriptedQuorum

P = ParamSpec("P")
T = TypeVar("T")

SECONDS_MAX = 30.0


class QuorumThread:
    """Let the thread of the quorum do what a test asks for. See ``running_quorum``."""

    def __init__(self, quorum: ScriptedQuorum, token: trio.lowlevel.TrioToken) -> None:
        self._quorum = quorum
        self._token = token

    def do(
        self,
        action: Callable[Concatenate[ScriptedQuorum, P], T],
        *arguments: P.args,
        **keywords: P.kwargs,
    ) -> T:
        """Return the result of ``action`` for the quorum: ``do(ScriptedQuorum.elect, 2)``."""
        call = partial(action, self._quorum, *arguments, **keywords)
        return trio.from_thread.run_sync(call, trio_token=self._token)

    def start(self, node_id: int) -> None:
        """Start a killed controller again."""
        trio.from_thread.run(self._quorum.start, node_id, trio_token=self._token)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the controllers, for ``controller.quorum.bootstrap.servers``."""
        return self.do(lambda quorum: ",".join(map(str, quorum.addresses)))

    @property
    def follower_keys(self) -> dict[str, str]:
        """The configuration of a daemon that follows the quorum."""
        return {
            "controller.quorum.bootstrap.servers": self.bootstrap_servers,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }


@contextmanager
def running_quorum(size: int = 3, **options: Any) -> Iterator[QuorumThread]:  # noqa: ANN401 - those of the quorum
    """Run a quorum on free ports of 127.0.0.1, of which controller 1 is elected, until the end."""
    begun: Future[QuorumThread] = Future()
    ended: list[trio.CancelScope] = []

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            quorum = ScriptedQuorum(nursery, size, **options)
            await quorum.listen()
            quorum.elect(1)
            ended.append(nursery.cancel_scope)
            begun.set_result(QuorumThread(quorum, trio.lowlevel.current_trio_token()))
            await trio.sleep_forever()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            if not begun.done():
                begun.set_exception(error)
            raise

    thread = threading.Thread(target=run, name="scripted quorum")
    thread.start()
    try:
        quorum = begun.result(SECONDS_MAX)
        yield quorum
    finally:
        if begun.done() and begun.exception() is None:
            begun.result().do(lambda _: ended[0].cancel())
        thread.join(SECONDS_MAX)
        assert not thread.is_alive()
