"""A daemon's source, copy and applier that follow a scripted quorum."""

import math
from pathlib import Path
from typing import Any

import trio

from authorizerd.acl.release_in_force import Evidence, judge_release
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.config.follow.settings import FollowSettings, Server, SourceKind
from authorizerd.daemon.sources.copy_checkpointer import CopyCheckpointer
from authorizerd.daemon.sources.freshness import Freshness
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.daemon.sources.quorum.source import QuorumSource
from authorizerd.daemon.sources.status import SourceStatus
from tests.support.copies import new_copy
from tests.support.scripted_quorum import ScriptedQuorum

SECONDS_MAX = 20
"""Far above what any test needs."""


class Following:
    """Follow ``quorum`` with a copy in ``folder``, until ``kill``.

    ``seen`` has the numbers of the ACLs in each state that became visible.
    """

    def __init__(self, quorum: ScriptedQuorum, folder: Path, **settings: Any) -> None:  # noqa: ANN401
        self._settings = FollowSettings(
            kind=SourceKind.QUORUM,
            servers=tuple(Server(each.host, each.port) for each in quorum.addresses),
            **settings,
        )
        self.copy = new_copy(folder)
        self.status = SourceStatus(SourceKind.QUORUM, clock=trio.current_time)
        self._feed, inbox = trio.open_memory_channel[Message](16)
        self.applier = RecordApplier(
            inbox,
            judge=lambda image: judge_release(image, Evidence.QUORUM),
            on_misfit=lambda error: self.status.fail(str(error), error.offset),
            deadline=-math.inf,
            clock=trio.current_time,
        )
        self.freshness = Freshness(
            self._feed.clone(), self.status, stale_max_ms=self._settings.stale_max_ms
        )
        self.source = QuorumSource(
            self._settings,
            self.copy,
            NodeOpener(self._settings, quorum.connect).open,
            applied=self.applier.applied,
            cluster=self.applier.cluster,
            freshness=self.freshness,
            status=self.status,
        )
        self.checkpointer = CopyCheckpointer(
            self.copy,
            self.status,
            self.applier.applied,
            self.applier.cluster,
            is_complete=self.source.is_complete,
            bytes_between=0,
        )
        self.seen: list[set[int]] = []
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run(self) -> None:
        """Run until it is killed or the test ends."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.applier.run)
                nursery.start_soon(self._watch)
                nursery.start_soon(self.source.run, self._feed)
        self.copy.close()
        self._ended.set()

    async def _watch(self) -> None:
        offset = -1
        while True:
            snapshot = await self.applier.snapshot.wait_until(
                lambda newest: newest is not None and newest.offset > offset  # noqa: B023 - changes
            )
            assert snapshot is not None
            offset = snapshot.offset
            self.seen.append(self.numbers)

    async def kill(self) -> None:
        """End at once."""
        self._scope.cancel()
        await self._ended.wait()

    @property
    def numbers(self) -> set[int]:
        """The numbers of the ACLs to decide by; empty while there are no decisions."""
        snapshot = self.applier.snapshot.newest
        acls = () if snapshot is None else snapshot.acls
        return {int.from_bytes(acl_id, "big") for acl_id in acls}

    async def wait_for(self, *numbers: int) -> None:
        """Wait until decisions use exactly these ACLs."""
        wanted = {number.to_bytes(16, "big") for number in numbers}
        with trio.fail_after(SECONDS_MAX):
            await self.applier.snapshot.wait_until(
                lambda newest: newest is not None and set(newest.acls) == wanted
            )

    async def wait_for_silence(self) -> None:
        """Wait until there are no decisions, because contact was lost or for good."""
        with trio.fail_after(SECONDS_MAX):
            while not (self.status.fault or self.status.is_stale):  # noqa: ASYNC110 - it has no event
                await trio.sleep(0.01)
            await self.applier.snapshot.wait_until(lambda newest: newest is None)


class FollowedQuorum(ScriptedQuorum):
    """A quorum, and the folder in which its followers keep their copy."""

    def __init__(self, nursery: trio.Nursery, folder: Path, *, kafka: str = "4.3") -> None:
        super().__init__(nursery, kafka=kafka)
        self._tasks = nursery
        self._folder = folder / "copy"
        self._folder.mkdir(exist_ok=True)

    def follow(self, **settings: object) -> Following:
        """Begin to follow, each time with the same copy."""
        following = Following(self, self._folder, **settings)
        self._tasks.start_soon(following.run)
        return following

    async def followed(self, *numbers: int, **settings: object) -> Following:
        """Begin to follow, and wait until decisions use exactly these ACLs."""
        following = self.follow(**settings)
        await following.wait_for(*numbers)
        return following

    def kill_all(self) -> None:
        for node_id in self.controllers:
            self.kill(node_id)

    def revive_all(self) -> None:
        """Accept connections again; nobody leads before the next ``elect``."""
        for controller in self.controllers.values():
            controller.is_alive = True
