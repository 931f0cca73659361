"""Nothing is acknowledged before it is durable: watched call by call, and tried with SIGKILL."""

from __future__ import annotations

import itertools
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import trio

from authorizerd.acl.model import (
    Acl,
    AclFilter,
    ChangeBatch,
    Operation,
    PatternType,
    PermissionType,
)
from authorizerd.acl.model import ResourceType as Type
from authorizerd.actors.completion import Completion
from authorizerd.actors.record_applier import CaughtUp, RecordApplier
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.own_log_writer import OwnLog
from authorizerd.metadata.directory import find_files
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.writer import LogWriter
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from tests.support.daemon_process import SECONDS_MAX, DaemonProcess, run, running, write_config
from tests.support.log_files import added, read_acls, write_log
from tests.support.recording_storage import Call, RecordingStorage

KILLS: Final = int(os.environ.get("AUTHORIZERD_TEST_KILLS", "20"))
CLIENTS: Final = 3
ACLS_PER_REQUEST_MAX: Final = 40
VERSION: Final = 3
ACKNOWLEDGED: Final[Call] = ("acknowledged", "")
SMALL: Final = {
    "super.users": "User:ANONYMOUS",
    "metadata.log.segment.bytes": "16384",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "metadata.max.retention.bytes": "30000",
}


def acl(name: str, number: int = 0) -> Acl:
    return Acl(
        Type.TOPIC, name, PatternType.LITERAL, f"User:{number}", "*",
        Operation.READ, PermissionType.ALLOW,
    )  # fmt: skip


def named(name: str | None) -> AclFilter:
    """Return the filter of a resource's name, or of everything."""
    return AclFilter(Type.ANY, name, PatternType.ANY, None, None, Operation.ANY, PermissionType.ANY)


def early(calls: Sequence[Call]) -> list[int]:
    """Return which calls are acknowledgements of what was not durable yet.

    Durable is a batch once its file is synced, and the directory since the file was begun.
    """
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
    """One whose syncs of one kind are never made."""

    def __init__(self, skipped: str) -> None:
        super().__init__()
        self._skipped = skipped

    def call(self, what: str, path: Path) -> None:
        if what != self._skipped:
            super().call(what, path)


async def acknowledge_many(log_dir: Path, storage: RecordingStorage) -> int:
    """Make updates through the real queue and log; return how many were acknowledged."""
    write_log(log_dir, [added(1)])
    writer = LogWriter(log_dir, storage=storage, segment_bytes_max=1500, now_ms=lambda: 1)
    feed, inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](16)
    applier = RecordApplier(inbox)
    own = OwnLog(writer, node_id=1)
    queue = UpdateQueue(
        own,
        feed,
        applier.snapshot,
        applier.cluster,
        requests_max=100,
        new_id=lambda: os.urandom(16),
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
            await LocalLogSource(MetadataLog.open(log_dir), own.begin).run(feed.clone())
            for number in range(10):
                async with trio.open_nursery() as waiting:
                    for client in range(CLIENTS):
                        [completion] = queue.create([acl(f"t{number}", client)])
                        waiting.start_soon(wait_for, completion)
            nursery.cancel_scope.cancel()
    return acknowledged


async def test_an_acknowledgement_follows_the_sync(tmp_path: Path) -> None:
    """It follows the sync of its batch, and of the directory entry of the batch's segment."""
    storage = RecordingStorage()
    assert await acknowledge_many(tmp_path, storage) == 10 * CLIENTS
    assert early(storage.calls) == []
    assert storage.calls.count(ACKNOWLEDGED) == 10 * CLIENTS
    assert len(find_files(tmp_path).segments) > 2
    assert len(read_acls(tmp_path)) == 10 * CLIENTS + 1


@pytest.mark.parametrize("skipped", ["sync", "sync_directory"])
async def test_without_a_sync_the_watch_finds_it(tmp_path: Path, skipped: str) -> None:
    """This proves that the check can fail."""
    storage = SkippingStorage(skipped)
    await acknowledge_many(tmp_path, storage)
    assert early(storage.calls)


class Connection:
    """A client's connection that waits for each answer."""

    def __init__(self, daemon: DaemonProcess) -> None:
        host, _, port = daemon.ready["listeners"]["PLAINTEXT"].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=SECONDS_MAX)
        self._requests = KafkaClientConnection("durability", 1 << 30)

    def close(self) -> None:
        self._socket.close()

    def ask(self, api_key: ApiKey, body: bytes) -> bytes | bytearray:
        """Return the body of the answer.

        Raises:
            ConnectionError: the daemon has ended.
        """
        self._socket.sendall(self._requests.frame_request(api_key, VERSION, body))
        while (response := self._requests.next_response()) is None:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the daemon has ended")
            self._requests.receive_data(data)
        return response.body

    def create(self, acls: Sequence[Acl]) -> None:
        body = self.ask(ApiKey.CREATE_ACLS, encode_create_acls_request(VERSION, acls))
        assert decode_create_acls_response(VERSION, body) == [None] * len(acls)

    def delete(self, name: str) -> int:
        """Return how many ACLs are deleted."""
        body = self.ask(ApiKey.DELETE_ACLS, encode_delete_acls_request(VERSION, [named(name)]))
        [result] = decode_delete_acls_response(VERSION, body)
        assert result.error is None
        return len(result.matches)

    def describe(self) -> list[Acl]:
        body = self.ask(ApiKey.DESCRIBE_ACLS, encode_describe_acls_request(VERSION, named(None)))
        acls = decode_describe_acls_response(VERSION, body)
        assert isinstance(acls, list)
        return acls


@dataclass
class Client:
    """Creates and deletes groups of ACLs; each group is one name, and one request.

    ``sizes`` holds what was acknowledged; ``in_doubt`` what was asked for and not answered, by
    the size that the group would have if it was done, and if it was not.
    """

    number: int
    chance: random.Random
    sizes: dict[str, int] = field(default_factory=dict)
    in_doubt: dict[str, set[int]] = field(default_factory=dict)
    acknowledged: int = 0
    names: itertools.count[int] = field(default_factory=itertools.count)

    def work(self, daemon: DaemonProcess) -> None:
        """Go on until the daemon is killed."""
        with suppress(ConnectionError):
            connection = Connection(daemon)
            try:
                while True:
                    self._step(connection)
                    self.acknowledged += 1
            finally:
                connection.close()

    def _step(self, connection: Connection) -> None:
        present = [name for name, size in self.sizes.items() if size]
        if len(present) > 5 or (present and self.chance.random() < 0.4):
            name = self.chance.choice(present)
            self.in_doubt = {name: {0, self.sizes[name]}}
            assert connection.delete(name) == self.sizes[name]
            self.sizes[name] = 0
        else:
            name = f"client-{self.number}-{next(self.names)}"
            size = self.chance.randint(1, ACLS_PER_REQUEST_MAX)
            self.in_doubt = {name: {0, size}}
            connection.create([acl(name, number) for number in range(size)])
            self.sizes[name] = size
        self.in_doubt = {}

    def check(self, found: Counter[str]) -> None:
        """Compare with what a new start has found, and settle what was in doubt."""
        for name, possible in self.in_doubt.items():
            assert found[name] in possible, f"{name}: {found[name]} of a request's {possible}"
            self.sizes[name] = found[name]
        self.in_doubt = {}
        for name, size in self.sizes.items():
            assert found[name] == size, f"{name}: {found[name]}, {size} were acknowledged"


def new_log(folder: Path) -> Path:
    log_dir = folder / "log"
    done = run("format", "--config", write_config(folder, log_dir))
    assert done.returncode == 0, done.stderr
    return log_dir


def described(daemon: DaemonProcess) -> list[Acl]:
    connection = Connection(daemon)
    try:
        return connection.describe()
    finally:
        connection.close()


def test_kills_at_any_moment_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """Nor bring anything deleted back, nor leave a request half done; checkpoints being written.

    A checkpoint is begun a second after the start, so every seventh life ends about then.
    """
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
                daemon.process.kill()
                daemon.process.wait()
                for each in ended:
                    each.result(SECONDS_MAX)
    assert sum(client.acknowledged for client in clients) > 10 * KILLS


def test_checkpoints_take_the_place_of_the_log(tmp_path: Path) -> None:
    """The state after a restart equals; what the checkpoint makes superfluous is gone."""
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir, SMALL) as daemon:
        connection = Connection(daemon)
        give_up = time.monotonic() + SECONDS_MAX
        for number in itertools.count():
            connection.create([acl(f"t{number}", each) for each in range(100)])
            if number % 10:
                connection.delete(f"t{number}")
            files = find_files(log_dir)
            if len(files.checkpoints) == 1 and files.segments[0].base_offset > 0:
                break
            assert time.monotonic() < give_up, "no checkpoint was written, or nothing retired"
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
