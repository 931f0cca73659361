"""A scripted quorum in a thread, for tests that block while a daemon process follows it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio

from tests.support.scripted_quorum import ScriptedQuorum
from tests.support.scripted_thread import ScriptedThread, running_scripted


class QuorumThread(ScriptedThread[ScriptedQuorum]):
    """Let the thread of the quorum do what a test asks for. See ``running_quorum``."""

    def start(self, node_id: int) -> None:
        """Start a killed controller again."""
        trio.from_thread.run(self.scripted.start, node_id, trio_token=self.token)

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

    async def begin(nursery: trio.Nursery) -> ScriptedQuorum:
        quorum = ScriptedQuorum(nursery, size, **options)
        await quorum.listen()
        quorum.elect(1)
        return quorum

    with running_scripted(begin, "scripted quorum") as running:
        yield QuorumThread(running.scripted, running.token)
