"""A real daemon under a service manager: its notifications and inherited sockets."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.control import leader_change
from tests.end_to_end.fake_service_manager import (
    HeldService,
    NotifySocket,
    held_service,
    start_service,
)
from tests.end_to_end.worker_processes import children, server_of, sockets_of, state_of
from tests.support.acls import acl
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    ask,
    connect,
    read_until,
    wait_until,
    write_config,
)
from tests.support.kafka_connection import KafkaConnection
from tests.support.log_files import (
    EPOCH,
    METADATA_VERSION,
    TIME_MS,
    added,
    data_batch,
    write_segment,
)
from tests.support.requests import evaluation
from tests.support.stream_connection import StreamConnection

ACLS: Final = 10
READABLE: Final = acl("User:alice", topic="orders")
WATCHDOG_US: Final = 500_000
STREAM_QUESTION: Final = ("User:alice", None, "READ", "TOPIC", "orders")
PASSWORD: Final = "swordfish"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Return a log of two segments, of which the second can be held back."""
    folder = tmp_path / "log"
    begin = encode_batch(0, EPOCH, TIME_MS, [leader_change(1)], is_control=True)
    acls = [added(number) for number in range(ACLS)]
    write_segment(folder, 0, begin + data_batch(1, [METADATA_VERSION]) + data_batch(2, acls))
    write_segment(folder, 2 + ACLS, data_batch(2 + ACLS, [added(ACLS, READABLE)]))
    return folder


@pytest.fixture(params=["path", "abstract"])
def notified(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NotifySocket]:
    is_path = request.param == "path"
    notify_socket = NotifySocket(str(tmp_path / "notify") if is_path else f"@{uuid4()}")
    yield notify_socket
    notify_socket.close()


def test_each_step_is_reported_in_order(
    tmp_path: Path, log_dir: Path, notified: NotifySocket
) -> None:
    """The watchdog is fed all the time, except while the process is stopped."""
    config_file = write_config(tmp_path, log_dir)
    environment = {"NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": str(WATCHDOG_US)}
    with held_service(config_file, tmp_path / "ready", environment=environment) as service:
        loading = [*notified.receive_until("STATUS"), *notified.receive_until("WATCHDOG")]
        assert any("EXTEND_TIMEOUT_USEC" in message for message in loading)
        assert not any("READY" in message for message in loading)
        status = next(each["STATUS"] for each in loading if "STATUS" in each)
        assert status.startswith("loading: read up to log offset")
        service.release()
        ready = notified.receive_until("READY")[-1]
        assert ready["STATUS"].startswith(f"ready: {ACLS + 1} ACLs at log offset ")
        addresses = json.loads(service.ready_file.read_bytes())
        socket.create_connection(addresses["decision_http"].split(":"), SECONDS_MAX).close()
        before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        service.process.send_signal(signal.SIGHUP)
        reloading = notified.receive_until("RELOADING")[-1]
        after_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        assert before_us <= int(reloading["MONOTONIC_USEC"]) <= after_us
        reloaded = notified.receive_until("READY")
        assert reloaded[-1]["STATUS"].startswith("ready: ")
        assert not any("EXTEND_TIMEOUT_USEC" in message for message in reloaded)
        notified.receive_until("WATCHDOG")
        starve(service, notified)
        service.process.send_signal(signal.SIGTERM)
        assert notified.receive_until("STOPPING")[-1]["STATUS"] == "draining"
        assert service.process.wait(SECONDS_MAX) == 0


def starve(service: HeldService, notified: NotifySocket) -> None:
    """Check that the watchdog is fed again only after a stopped process continues."""
    service.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(service.process.pid) == "T", "the process is stopped")
    notified.receive_all()
    with pytest.raises(TimeoutError):
        notified.receive(seconds=1.5 * WATCHDOG_US / 1e6)
    service.process.send_signal(signal.SIGCONT)
    notified.receive_until("WATCHDOG")


def test_reload_during_the_load_is_not_reported(tmp_path: Path, log_dir: Path) -> None:
    """READY=1 ends a start as well as a reload, so only a daemon that is ready reports a reload."""
    notified = NotifySocket(str(tmp_path / "notify"))
    environment = {"NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": str(WATCHDOG_US)}
    config_file = write_config(tmp_path, log_dir)
    with held_service(config_file, tmp_path / "ready", environment=environment) as service:
        notified.receive_until("STATUS")
        service.process.send_signal(signal.SIGHUP)
        read_until(service.process, "the configuration is reloaded")
        heard = [*notified.receive_until("WATCHDOG"), *notified.receive_until("WATCHDOG")]
        assert not any({"READY", "RELOADING"} & message.keys() for message in heard)
    notified.close()


def test_missing_service_manager_is_only_logged(tmp_path: Path, log_dir: Path) -> None:
    """The daemon becomes ready, and ends on SIGTERM."""
    config_file, ready_file = write_config(tmp_path, log_dir), tmp_path / "ready"
    environment = {"NOTIFY_SOCKET": str(tmp_path / "nowhere"), "WATCHDOG_USEC": "1"}
    with held_service(config_file, ready_file, environment=environment) as service:
        service.release()
        service.wait_until_ready()
        service.process.send_signal(signal.SIGTERM)
        _, errors = service.process.communicate(timeout=SECONDS_MAX)
    assert service.process.returncode == 0
    assert errors.count("the service manager cannot be notified") == 1


class Activated:
    """A held daemon that inherits every socket; ``stack`` closes the connections."""

    def __init__(
        self, service: HeldService, sockets: Mapping[str, socket.socket], stack: ExitStack
    ) -> None:
        self.service = service
        self.sockets = sockets
        self._stack = stack

    def address(self, name: str) -> str:
        host, port = self.sockets[name].getsockname()
        return f"{host}:{port}"

    def connect(self, name: str) -> HTTPConnection:
        connection = HTTPConnection(self.address(name), timeout=SECONDS_MAX)
        self._stack.callback(connection.close)
        connection.connect()
        return connection


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


@contextmanager
def activated(
    folder: Path, log_dir: Path, *, workers: int, decision_stream: socket.socket, place: str
) -> Iterator[Activated]:
    names = ("decision_http", "admin_http", "PLAINTEXT")
    with ExitStack() as stack:
        sockets = {name: stack.enter_context(listening()) for name in names}
        sockets["decision_stream"] = stack.enter_context(decision_stream)
        addresses = {name: f"127.0.0.1:{sockets[name].getsockname()[1]}" for name in names}
        config = {
            "listeners": f"PLAINTEXT://{addresses['PLAINTEXT']}",
            "authorizerd.decision.http": f"http://{addresses['decision_http']}",
            "authorizerd.decision.stream": place,
            "authorizerd.admin.http": f"http://{addresses['admin_http']}",
            "authorizerd.workers": str(workers),
            "super.users": "User:ANONYMOUS",
        }
        config_file, ready_file = write_config(folder, log_dir, config), folder / "ready"
        environment = {"NOTIFY_SOCKET": "@nobody", "WATCHDOG_USEC": "30000000"}
        with held_service(
            config_file, ready_file, sockets=sockets, environment=environment
        ) as service:
            yield Activated(service, sockets, stack)


def over_tcp(_: Path) -> tuple[socket.socket, str]:
    bound = listening()
    return bound, f"tcp://127.0.0.1:{bound.getsockname()[1]}"


def over_unix(folder: Path) -> tuple[socket.socket, str]:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(folder / "stream"))
    bound.listen()
    return bound, f"unix:{folder}/stream"


def asked(connection: HTTPConnection) -> HTTPConnection:
    """Send the question without waiting for the answer."""
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/access/v1/evaluation", json.dumps(evaluation()), headers)
    return connection


def is_allowed(connection: HTTPConnection) -> bool:
    """Receive the answer."""
    response = connection.getresponse()
    assert response.status == 200
    decision: bool = json.loads(response.read())["decision"]
    return decision


@pytest.mark.parametrize("make_stream", [over_tcp, over_unix])
@pytest.mark.parametrize("workers", [1, 2])
def test_early_clients_of_inherited_sockets_are_answered_after_the_load(
    tmp_path: Path, log_dir: Path, workers: int, make_stream: type
) -> None:
    """The socket listens during the load and after the daemon has ended."""
    decision_stream, place = make_stream(tmp_path)
    with activated(
        tmp_path, log_dir, workers=workers, decision_stream=decision_stream, place=place
    ) as daemon:
        early = asked(daemon.connect("decision_http"))
        kafka = KafkaConnection(daemon.address("PLAINTEXT"))
        loading = ask(daemon.connect("admin_http"), "GET", "/readyz")
        assert (loading.status, loading.body.split(b":")[0]) == (503, b"loading")
        early.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            early.sock.recv(1)
        early.sock.settimeout(SECONDS_MAX)
        daemon.service.release()
        assert is_allowed(early)
        (topic,) = kafka.metadata("orders").topics
        assert topic.name == "orders"
        kafka.close()
        stream = StreamConnection(place.removeprefix("tcp://"))
        assert stream.ask(STREAM_QUESTION).decisions == b"\x01"
        stream.close()
        daemon.service.wait_until_ready()
        ready = json.loads(daemon.service.ready_file.read_bytes())
        assert ready["decision_http"] == daemon.address("decision_http")
        assert ready["decision_stream"] == place.removeprefix("tcp://")
        daemon.service.process.send_signal(signal.SIGTERM)
        assert daemon.service.process.wait(SECONDS_MAX) == 0
        daemon.connect("decision_http")  # waits for the next daemon
        if decision_stream.family == socket.AF_UNIX:
            assert (tmp_path / "stream").is_socket()


def test_workers_accept_from_inherited_sockets_without_the_service_managers_variables(
    tmp_path: Path, log_dir: Path
) -> None:
    """While no worker serves, clients wait. Workers inherit only the decision ports' sockets."""
    decision_stream, place = over_tcp(tmp_path)
    with activated(
        tmp_path, log_dir, workers=2, decision_stream=decision_stream, place=place
    ) as daemon:
        daemon.service.release()
        daemon.service.wait_until_ready()
        workers = children(daemon.service.process.pid)
        first = StreamConnection(place.removeprefix("tcp://"))
        server = server_of(first, workers)
        os.kill(server, signal.SIGSTOP)
        wait_until(lambda: state_of(server) == "T", "the process is stopped")
        assert is_allowed(asked(daemon.connect("decision_http")))
        os.kill(server, signal.SIGCONT)
        for worker in workers:
            environment = Path(f"/proc/{worker}/environ").read_bytes()
            assert b"NOTIFY_SOCKET" not in environment
            assert b"WATCHDOG_USEC" not in environment
            assert b"LISTEN_" not in environment
            assert len(listening_sockets(worker)) == 2
            os.kill(worker, signal.SIGKILL)
        assert is_allowed(asked(daemon.connect("decision_http")))
        first.close()


def listening_sockets(pid: int) -> set[str]:
    """Return the inodes of the listening TCP sockets that a process has open."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"} & sockets_of(pid)


def test_inherited_socket_must_be_on_loopback_without_tokens(tmp_path: Path, log_dir: Path) -> None:
    """The same rule holds as for an address that the daemon binds."""
    with socket.create_server(("0.0.0.0", 0)) as bound:
        port = bound.getsockname()[1]
        config_file = write_config(
            tmp_path, log_dir, {"authorizerd.decision.http": f"http://127.0.0.1:{port}"}
        )
        process = start_service(
            "authorizerd.cli.main",
            *("--config", config_file),
            sockets={"decision_http": bound},
            environment={},
        )
        _, errors = process.communicate(timeout=SECONDS_MAX)
    reason = "the inherited socket's 0.0.0.0 is not a loopback address"
    assert process.returncode == 1
    assert f"authorizerd: authorizerd.decision.http: {reason}" in errors.splitlines()[-1]


def send_nonsense(address: str) -> None:
    """Send an invalid frame, which is logged, and wait until the daemon closes the connection."""
    with connect(address) as nonsense:
        nonsense.sendall(b"\xff" * 8)
        while nonsense.recv(1 << 10):
            pass


@pytest.mark.parametrize("workers", [1, 2])
def test_json_log_lines_have_a_priority_and_no_secret(
    tmp_path: Path, log_dir: Path, workers: int
) -> None:
    """Each line of the daemon and its workers is a priority and one JSON object."""
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = {
        "authorizerd.log.format": "json",
        "authorizerd.log.level": "DEBUG",
        "authorizerd.workers": str(workers),
        "listeners": "PRIVATE://127.0.0.1:0",
        "listener.security.protocol.map": "PRIVATE:SASL_PLAINTEXT",
        "listener.name.private.plain.sasl.jaas.config": f'{jaas} user_alice="{PASSWORD}";',
    }
    config_file, ready_file = write_config(tmp_path, log_dir, config), tmp_path / "ready"
    with open(tmp_path / "journal", "w+") as journal:
        status = os.fstat(journal.fileno())
        process = start_service(
            "authorizerd.cli.main",
            *("--config", config_file, "--ready-file", ready_file),
            sockets={},
            environment={"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"},
            stderr=journal,
        )
        try:
            wait_until(lambda: ready_file.exists() or process.poll() is not None, "ready")
            daemon = DaemonProcess(process, json.loads(ready_file.read_bytes()))
            if workers > 1:
                os.kill(children(process.pid).pop(), signal.SIGKILL)
                wait_until(
                    lambda: daemon.metric("authorizerd_worker_restarts_total") == 1, "replaced"
                )
            # Only now: a killed worker may not have written its log.
            send_nonsense(daemon.ready["decision_stream"])
            daemon.close()
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS_MAX)
        journal.seek(0)
        lines = journal.read().splitlines()
    assert PASSWORD not in "".join(lines)
    events = [json.loads(line[3:]) for line in lines]
    levels = {"<7>": "DEBUG", "<6>": "INFO", "<4>": "WARNING", "<3>": "ERROR"}
    assert [levels[line[:3]] for line in lines] == [event["level"] for event in events]
    assert events[-1]["message"] == "ended"
    (closed,) = (each for each in events if "connection closed" in each["message"])
    assert ("worker" in closed, closed["pid"] == process.pid) == (workers > 1, workers == 1)
    assert {"<3>", "<6>"} <= {line[:3] for line in lines} or workers == 1
