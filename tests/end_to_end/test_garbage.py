"""Thousands of connections that send invalid requests do not affect the daemon.

``AUTHORIZERD_GARBAGE_CONNECTIONS`` sets their number.
"""

import os
import re
import signal
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread

from authorizerd.protocol.kafka.api import APIS, ApiKey
from tests.support.admin_client import binding, create_acls, describe_acls, new_admin
from tests.support.daemon_process import SECONDS_MAX, DaemonProcess, new_log, running
from tests.support.requests import evaluation
from tests.support.sizes import size

CONNECTIONS = int(os.environ.get("AUTHORIZERD_GARBAGE_CONNECTIONS", size(1_000, 10_000)))
AT_ONCE = 4
RSS_GROWTH_BYTES_MAX = 50 * 1024 * 1024
HEADER = struct.Struct(">hhih")
RESET = struct.pack("ii", 1, 0)
"""Linger 0 s: closing resets the connection."""


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def nothing(random: Random) -> bytes:
    return b""


def noise(random: Random) -> bytes:
    return random.randbytes(random.randrange(1, 400))


def half_frame(random: Random) -> bytes:
    return random.randrange(5000).to_bytes(4, "big") + random.randbytes(random.randrange(40))


def bad_size(random: Random) -> bytes:
    return random.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0"))


def noise_in_a_frame(random: Random) -> bytes:
    return framed(random.randbytes(random.randrange(60)))


def noise_in_a_body(random: Random) -> bytes:
    """Return a request of a served API with a random body."""
    api_key = random.choice(list(ApiKey))
    version = random.randint(0, APIS[api_key].last_version)
    head = HEADER.pack(api_key, version, 1, -1)
    return framed(head + b"\0" + random.randbytes(random.randrange(80)))


KINDS = (nothing, noise, half_frame, bad_size, noise_in_a_frame, noise_in_a_body)


def send_garbage(address: tuple[str, int], seed: int, count: int) -> None:
    random = Random(seed)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        with socket.create_connection(address, timeout=SECONDS_MAX) as connection:
            try:
                connection.sendall(kind(random))
                if kind is bad_size:  # wait for the daemon, which closes it
                    assert connection.recv(1) == b""
            except (BrokenPipeError, ConnectionResetError):
                pass
            if random.random() < 0.3:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def rss_bytes(daemon: DaemonProcess) -> int:
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@contextmanager
def reading_errors(daemon: DaemonProcess) -> Iterator[list[str]]:
    """Collect standard error, which would fill its pipe, until the daemon ends."""
    assert daemon.process.stderr is not None
    lines: list[str] = []
    reader = Thread(target=lines.extend, args=(daemon.process.stderr,), daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        daemon.process.send_signal(signal.SIGTERM)
        reader.join(SECONDS_MAX)


def check_health(daemon: DaemonProcess, name: str) -> None:
    """Create an ACL with a client, and get a decision that uses it."""
    admin = new_admin(daemon)
    assert create_acls(admin, binding(name)) == [None]
    assert binding(name) in describe_acls(admin)
    assert daemon.evaluate(evaluation(topic=name)).json["decision"] is True


def test_garbage_does_not_affect_the_daemon(tmp_path: Path) -> None:
    """Its answers, memory, log and ACLs stay as they were."""
    with (
        running(tmp_path, new_log(tmp_path), super_users="User:ANONYMOUS") as daemon,
        reading_errors(daemon) as errors,
    ):
        host, _, port = daemon.ready["listeners"]["PLAINTEXT"].partition(":")
        check_health(daemon, "before")
        before = rss_bytes(daemon)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            share = CONNECTIONS // AT_ONCE
            for done in [
                pool.submit(send_garbage, (host, int(port)), seed, share) for seed in range(AT_ONCE)
            ]:
                done.result()
        check_health(daemon, "after")
        assert rss_bytes(daemon) - before < RSS_GROWTH_BYTES_MAX
        assert daemon.metric("authorizerd_acls") == 2
        broken = daemon.metric(
            'authorizerd_kafka_connections_ended_total{listener="PLAINTEXT",reason="broken"}'
        )
        assert broken >= CONNECTIONS // len(KINDS) - AT_ONCE
    assert daemon.process.wait(SECONDS_MAX) == 0
    assert errors
    assert not [line for line in errors if "Traceback" in line or " ERROR " in line]
