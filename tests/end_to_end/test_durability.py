"""Changes are durable before they are acknowledged: every storage call is checked, then SIGKILL."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import trio

from authorizerd.acl.model import Acl
from authorizerd.actors.completion import Completion
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.own_log_writer import OwnLog
from authorizerd.metadata.directory import find_files
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.writer import LogWriter
from tests.support.acls import acl
from tests.support.daemon_process import SECONDS_MAX, DaemonProcess, new_log, running, wait_until
from tests.support.kafka_connection import KafkaConnection
from tests.support.log_files import added, read_acls, write_log
from tests.support.recording_storage import Call, RecordingStorage
from tests.support.sizes import size

KILLS: Final = int(os.environ.get("AUTHORIZERD_TEST_KILLS", size(7, 20)))
CLIENTS: Final = 3
ACLS_PER_REQUEST_MAX: Final = 40
ACKNOWLEDGED: Final[Call] = ("acknowledged", "")
SMALL: Final = {
    "super.users": "User:ANONYMOUS",
    "metadata.log.segment.bytes": "16384",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "metadata.max.retention.bytes": "30000",
}


def early(calls: Sequence[Call]) -> list[int]:
    """Return the numbers of calls that acknowledge before the file and its name are synced."""
    dirty: set[str] = set()
    unnamed: set[str] = set()
    found = []
    for number, (what, name) in enumerate(calls):
        if what == "append":
            dirty.add(name)
        elif what == "sync":
            dirty.discard(name)
        elif what == "append_to":
            unnamed.add(name)
        elif what == "sync_directory":
            unnamed.clear()
        elif what == "acknowledged" and (dirty or unnamed):
            found.append(number)
    return found


class SkippingStorage(RecordingStorage):
    """A storage that skips one kind of sync."""

    def __init__(self, skipped: str) -> None:
        super().__init__()
        self._skipped = skipped

    def call(self, what: str, path: Path) -> None:
        if what != self._skipped:
            super().call(what, path)


async def acknowledge_many(log_dir: Path, storage: RecordingStorage) -> int:
    """Make updates with the real queue and log; return the number of acknowledgements."""
    write_log(log_dir, [added(1)])
    writer = LogWriter(log_dir, storage=storage, segment_bytes_max=1500, now_ms=lambda: 1)
    feed, inbox = trio.open_memory_channel[Message](16)
    applier = RecordApplier(inbox)
    own = OwnLog(writer, node_id=1)
    queue = UpdateQueue(
        own,
        feed,
        applier.snapshot,
        applier.cluster,
        requests_max=100,
        new_id=lambda: os.urandom(16),
        acls_changed_at=lambda: applier.acls_changed_at,
    )
    acknowledged = 0

    async def wait_for(completion: Completion[None]) -> None:
        nonlocal acknowledged
        await completion
        storage.calls.append(ACKNOWLEDGED)
        acknowledged += 1

    with trio.fail_after(SECONDS_MAX):
        async with trio.open_nursery() as nursery:
            await nursery.start(applier.run)
            await nursery.start(queue.run)
            await LocalLogSource(MetadataLog.open(log_dir), own).run(feed.clone())
            for number in range(10):
                async with trio.open_nursery() as waiting:
                    for client in range(CLIENTS):
                        [completion] = queue.create([acl(f"User:{client}", topic=f"t{number}")])
                        waiting.start_soon(wait_for, completion)
            nursery.cancel_scope.cancel()
    return acknowledged


async def test_acknowledgement_follows_the_sync(tmp_path: Path) -> None:
    """The batch and the directory entry of its segment are synced first."""
    storage = RecordingStorage()
    assert await acknowledge_many(tmp_path, storage) == 10 * CLIENTS
    assert early(storage.calls) == []
    assert storage.calls.count(ACKNOWLEDGED) == 10 * CLIENTS
    assert len(find_files(tmp_path).segments) > 2
    assert len(read_acls(tmp_path)) == 10 * CLIENTS + 1


@pytest.mark.parametrize("skipped", ["sync", "sync_directory"])
async def test_missing_sync_is_detected(tmp_path: Path, skipped: str) -> None:
    """The check above can fail."""
    storage = SkippingStorage(skipped)
    await acknowledge_many(tmp_path, storage)
    assert early(storage.calls)


@dataclass
class Client:
    """A client that creates and deletes groups of ACLs.

    One request creates all ACLs of a group, which share a resource name.

    ``sizes`` has the acknowledged size of each group. ``in_doubt`` has the two possible sizes of
    the group whose request was not answered.
    """

    number: int
    chance: random.Random
    sizes: dict[str, int] = field(default_factory=dict)
    in_doubt: dict[str, set[int]] = field(default_factory=dict)
    acknowledged: int = 0
    names: itertools.count[int] = field(default_factory=itertools.count)

    def work(self, daemon: DaemonProcess) -> None:
        """Send requests until the daemon is killed."""
        with suppress(ConnectionError), closing(connected(daemon)) as connection:
            while True:
                self._step(connection)
                self.acknowledged += 1

    def _step(self, connection: KafkaConnection) -> None:
        present = [name for name, count in self.sizes.items() if count]
        if len(present) > 5 or (present and self.chance.random() < 0.4):
            name = self.chance.choice(present)
            self.in_doubt = {name: {0, self.sizes[name]}}
            assert connection.delete_name(name) == self.sizes[name]
            self.sizes[name] = 0
        else:
            name = f"client-{self.number}-{next(self.names)}"
            count = self.chance.randint(1, ACLS_PER_REQUEST_MAX)
            self.in_doubt = {name: {0, count}}
            acls = [acl(f"User:{number}", topic=name) for number in range(count)]
            assert connection.create(*acls) == [None] * count
            self.sizes[name] = count
        self.in_doubt = {}

    def check(self, found: Counter[str]) -> None:
        """Compare the groups with those after a restart, and resolve the group in doubt."""
        for name, possible in self.in_doubt.items():
            assert found[name] in possible, f"{name}: {found[name]}, expected one of {possible}"
            self.sizes[name] = found[name]
        self.in_doubt = {}
        for name, count in self.sizes.items():
            assert found[name] == count, f"{name}: {found[name]}, expected {count}"


def count_acknowledged(clients: Sequence[Client]) -> int:
    return sum(client.acknowledged for client in clients)


def wait_for_acknowledgements(
    clients: Sequence[Client], count: int, ended: Sequence[Future[None]]
) -> None:
    """Wait until the clients got more than ``count`` in total, or one has failed."""
    wait_until(
        lambda: count_acknowledged(clients) > count or any(each.done() for each in ended),
        f"{count} acknowledgements",
    )


def connected(daemon: DaemonProcess) -> KafkaConnection:
    return KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])


def described(daemon: DaemonProcess) -> list[Acl]:
    with closing(connected(daemon)) as connection:
        acls = connection.describe()
    assert isinstance(acls, list)
    return acls


def test_kills_lose_no_acknowledged_change(tmp_path: Path) -> None:
    """Nor restore a deleted ACL, nor leave half of a request, also during a checkpoint."""
    log_dir = new_log(tmp_path)
    chance = random.Random(6)
    clients = [Client(number, random.Random(number)) for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as threads:
        for kill in range(KILLS + 1):
            with running(tmp_path, log_dir, SMALL) as daemon:
                found = Counter(each.resource_name for each in described(daemon))
                for client in clients:
                    client.check(found)
                if kill == KILLS:
                    break
                ended = [threads.submit(client.work, daemon) for client in clients]
                time.sleep(chance.uniform(0, 0.15) + (1.0 if kill % 7 == 6 else 0))
                wait_for_acknowledgements(clients, 10 * (kill + 1), ended)
                daemon.process.kill()
                daemon.process.wait()
                for each in ended:
                    each.result(SECONDS_MAX)
    assert count_acknowledged(clients) > 10 * KILLS


def test_checkpoint_replaces_the_earlier_log(tmp_path: Path) -> None:
    """The state after a restart is the same, and superfluous files are deleted."""
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir, SMALL) as daemon:
        connection = connected(daemon)
        give_up = time.monotonic() + SECONDS_MAX
        for number in itertools.count():
            acls = [acl(f"User:{user}", topic=f"t{number}") for user in range(100)]
            assert connection.create(*acls) == [None] * 100
            if number % 10:
                assert connection.delete_name(f"t{number}") == 100
            files = find_files(log_dir)
            if len(files.checkpoints) == 1 and files.segments[0].base_offset > 0:
                break
            assert time.monotonic() < give_up, "no checkpoint was written, or no segment retired"
            time.sleep(0.05)
        connection.close()
        before = set(described(daemon))
        assert daemon.stop()[0] == 0
    [checkpoint] = find_files(log_dir).checkpoints
    assert find_files(log_dir).segments[0].base_offset <= checkpoint.end_offset
    assert set(read_acls(log_dir).values()) == before
    assert len(before) >= 100
    with running(tmp_path, log_dir, SMALL) as daemon:
        assert set(described(daemon)) == before
