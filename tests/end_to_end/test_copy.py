"""A daemon that follows a quorum is killed at any time: its copy is a state that was committed.

The quorum is scripted; the daemon is a real process, and its disk a real one.
"""

import re
import resource
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import TypeVar

import trio

from authorizerd.cli.main import main
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.sources.copy_directory import claim_copy_directory
from authorizerd.metadata.backups.backup_reader import read_backup
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.metadata.log_copy import LogCopy
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.kafka.api import QuorumKey
from tests.support.copies import read_ids
from tests.support.daemon_process import DaemonProcess, run, running, wait_until
from tests.support.log_files import added, removed
from tests.support.scripted_quorum import ScriptedQuorum
from tests.support.sizes import size

T = TypeVar("T")


async def in_thread(call: Callable[..., T], *arguments: object) -> T:
    return await trio.to_thread.run_sync(call, *arguments)


async def wait_for(holds: Callable[[], bool], what: str) -> None:
    await in_thread(wait_until, holds, what)


class Followed:
    """A scripted quorum on real sockets, and the configuration of a daemon that follows it."""

    def __init__(self, folder: Path, quorum: ScriptedQuorum) -> None:
        self.folder = folder
        self.log_dir = folder / "copy"
        self.quorum = quorum
        self.numbers: set[int] = set()
        self.settings: dict[str, str] = {}

    def configure(self) -> None:
        self.settings = {
            "controller.quorum.bootstrap.servers": ",".join(map(str, self.quorum.addresses)),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "super.users": "User:ANONYMOUS",
        }

    def add(self, *numbers: int) -> int:
        """Commit ACLs by number; return the last offset."""
        self.numbers.update(numbers)
        return self.quorum.append(*(added(each) for each in numbers))

    def remove(self, number: int) -> int:
        self.numbers.remove(number)
        return self.quorum.append(removed(number))

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[DaemonProcess]:
        """Run a daemon until the end of the block, and kill it there."""
        manager: AbstractContextManager[DaemonProcess] = running(
            self.folder, self.log_dir, self.settings
        )
        daemon = await in_thread(manager.__enter__)
        try:
            yield daemon
        finally:
            with trio.CancelScope(shield=True):
                await in_thread(manager.__exit__, None, None, None)

    async def wait_for(self, daemon: DaemonProcess, offset: int) -> None:
        """Wait until the daemon decides by a state at ``offset`` or later."""
        name = "authorizerd_snapshot_offset"
        await wait_for(lambda: daemon.metric(name) >= offset, f"state at offset {offset}")

    async def wait_until_saved(self, offset: int) -> None:
        """Wait until the copy of the running daemon ends at ``offset`` or later."""

        def is_saved() -> bool:
            try:
                return self.saved()[0] >= offset
            except shutil.Error:  # the daemon has removed a file meanwhile
                return False

        await wait_for(is_saved, f"copy up to offset {offset}")

    async def list_numbers(self, daemon: DaemonProcess) -> set[int]:
        address = daemon.ready["listeners"]["PLAINTEXT"]
        done = await in_thread(run, "acls", "--bootstrap-server", address, "--list")
        assert done.returncode == 0, done.stderr
        return set(map(int, re.findall(r"name=topic-(\d+),", done.stdout)))

    def saved(self) -> tuple[int, set[int]]:
        """Return the end of the copy, and its ACLs, as the next start would find them."""
        twin = self.folder / "twin"
        shutil.rmtree(twin, ignore_errors=True)
        shutil.copytree(self.log_dir, twin)
        claim_copy_directory(twin, SourceKind.QUORUM, node_id=1, storage=DISK)
        copy = LogCopy(twin, node_id=1, storage=DISK, segment_bytes_max=1 << 30)
        copy.open()
        assert not copy.fault
        found = read_ids(list(copy.batches()))
        copy.close()
        return copy.last_offset, found


@asynccontextmanager
async def followed(folder: Path) -> AsyncIterator[Followed]:
    """Run a quorum of three controllers that has elected the first."""
    async with trio.open_nursery() as nursery:
        quorum = ScriptedQuorum(nursery)
        await quorum.listen()
        quorum.elect(1)
        cluster = Followed(folder, quorum)
        cluster.configure()
        yield cluster
        nursery.cancel_scope.cancel()


def count_snapshot_pieces(cluster: Followed) -> int:
    """Return how many pieces of snapshots the controllers were asked for."""
    return sum(
        each.api_key is QuorumKey.FETCH_SNAPSHOT
        for controller in cluster.quorum.controllers.values()
        for each in controller.asked
    )


async def test_killed_daemon_continues_from_its_copy(tmp_path: Path) -> None:
    """Kills under a stream of changes, elections and snapshots."""
    chance = Random(7)
    number = 0
    async with followed(tmp_path) as cluster:
        states = {-1: set[int]()}

        def change() -> None:
            nonlocal number
            number += 1
            if len(cluster.numbers) > 20 and chance.random() < 0.4:
                offset = cluster.remove(chance.choice(sorted(cluster.numbers)))
            else:
                offset = cluster.add(number)
            states[offset] = set(cluster.numbers)

        async def write() -> None:
            while True:
                change()
                if chance.random() < 0.01:
                    cluster.quorum.elect(chance.choice((1, 2, 3)))
                if chance.random() < 0.01:
                    cluster.quorum.take_snapshot()
                await trio.sleep(0.005)

        cluster.settings |= {"metadata.log.max.record.bytes.between.snapshots": "20000"}
        for _ in range(200):
            change()
        for _ in range(size(4, 8)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                async with cluster.daemon() as daemon:
                    await trio.sleep(chance.random() * 2)
                    daemon.process.send_signal(signal.SIGKILL)
                    await in_thread(daemon.process.wait)
                nursery.cancel_scope.cancel()
            end, found = await in_thread(cluster.saved)
            newest = max(offset for offset in states if offset <= end)
            assert found == states[newest]
            assert not (tmp_path / "twin" / "copy-set-aside").exists()
        assert count_snapshot_pieces(cluster), (
            "the log of the cluster was longer than what is served"
        )
        async with cluster.daemon() as daemon:
            await cluster.wait_for(daemon, max(states))
            await cluster.wait_until_saved(max(states))
            await in_thread(daemon.stop, signal.SIGKILL)
        asked = count_snapshot_pieces(cluster)
        change()
        async with cluster.daemon() as daemon:
            await cluster.wait_for(daemon, max(states))
            assert await cluster.list_numbers(daemon) == cluster.numbers
        assert count_snapshot_pieces(cluster) == asked, "the copy had all but the end"
        assert any(each.suffix == ".checkpoint" for each in cluster.log_dir.rglob("*"))


async def test_copy_of_a_running_daemon_is_backed_up(tmp_path: Path) -> None:
    """Each backup is a state of the cluster, while the daemon replaces the copy's files."""
    states = {-1: set[int]()}
    checkpoints = set[str]()
    async with followed(tmp_path) as cluster:

        async def write() -> None:
            for number in count(1):
                offset = cluster.add(number)
                states[offset] = set(cluster.numbers)
                if number > 20:
                    offset = cluster.remove(number - 20)
                    states[offset] = set(cluster.numbers)
                await trio.sleep(0.005)

        cluster.settings |= {"metadata.log.max.record.bytes.between.snapshots": "5000"}
        first = cluster.add(0)
        states[first] = {0}
        async with cluster.daemon() as daemon, trio.open_nursery() as nursery:
            await cluster.wait_until_saved(first)
            nursery.start_soon(write)
            number = 0
            while number < 8 or len(checkpoints) < 3:
                number += 1
                out = tmp_path / f"{number}.checkpoint"
                words = ["backup", "--log-dir", str(cluster.log_dir), str(out)]
                assert await in_thread(main, words) == 0
                backup = read_backup(out)
                newest = max(offset for offset in states if offset <= backup.facts.offset)
                found = {int.from_bytes(acl_id, "big") for acl_id in backup.state.acls}
                assert found == states[newest]
                assert backup.facts.cluster_id == cluster.quorum.cluster_id
                checkpoints |= {each.name for each in cluster.log_dir.rglob("*.checkpoint")}
            nursery.cancel_scope.cancel()
            await in_thread(daemon.stop)


async def test_daemon_that_is_killed_between_applying_and_saving(tmp_path: Path) -> None:
    """Unsaved batches are fetched again. Meanwhile the leader has truncated."""
    async with followed(tmp_path) as cluster:
        offset = cluster.add(1, 2, 3)
        async with cluster.daemon() as daemon:
            await cluster.wait_for(daemon, offset)
            segment = cluster.log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)
            await cluster.wait_until_saved(offset)
            size = segment.stat().st_size + 10
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (size, size))
            await cluster.wait_for(daemon, cluster.add(4, 5))
            await cluster.wait_for(daemon, cluster.remove(1))
            assert await cluster.list_numbers(daemon) == {2, 3, 4, 5}
            # The leader also serves what is never committed.
            cluster.quorum.append(added(6), added(7), commits=False)
            await trio.sleep(0.3)
            daemon.process.send_signal(signal.SIGKILL)
            _, errors = await in_thread(daemon.process.communicate)
        assert "the copy of the cluster's metadata cannot be written" in errors
        assert await in_thread(cluster.saved) == (offset, {1, 2, 3})
        cluster.quorum.kill(1)
        cluster.quorum.elect(2)
        last = cluster.add(8)
        await cluster.quorum.start(1)
        async with cluster.daemon() as daemon:
            await cluster.wait_for(daemon, last)
            assert await cluster.list_numbers(daemon) == {2, 3, 4, 5, 8}
            assert daemon.process.poll() is None
        assert await in_thread(cluster.saved) == (last, {2, 3, 4, 5, 8})
        done = await in_thread(run, "check-log", cluster.log_dir)
        assert done.returncode == 0, done.stdout
        assert f"a copy of cluster {cluster.quorum.cluster_id} " in done.stdout
