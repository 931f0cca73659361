"""Replace the certificates of a real daemon: what clients see, and which connections end."""

import json
import os
import signal
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509

from authorizerd.config.alterations import AlterOperation
from authorizerd.protocol.decisions.stream import StreamQuestion
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.end_to_end.worker_processes import children
from tests.support.certificates import Authority, connect_tls, expired
from tests.support.daemon_process import (
    DaemonProcess,
    ask,
    new_log,
    running,
    wait_until,
    write_config,
)
from tests.support.fixture_types import TempPathFactory
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import evaluation
from tests.support.stream_connection import StreamConnection

ROTATIONS = 20
PORTS = ("SECURE", "decision_http", "decision_stream")
HTTP_LOCATION = "authorizerd.http.ssl.keystore.location"
LOCATION = "listener.name.secure.ssl.keystore.location"
QUESTION: StreamQuestion = ("User:alice", None, 3, 2, "orders")
HOSTS = ("127.0.0.1", "localhost")


class Site:
    """A daemon with TLS on all ports except the admin port, and its CA."""

    def __init__(
        self, daemon: DaemonProcess, authority: Authority, folder: Path, *, has_workers: bool
    ) -> None:
        self.daemon = daemon
        self.truststore = folder / "trusted.pem"
        self.authority = authority
        self.context = authority.client_context()
        self._has_workers = has_workers

    def address(self, port: str) -> str:
        return str(self.daemon.ready["listeners"].get(port) or self.daemon.ready[port])

    def serial(self, port: str) -> int:
        """Return the serial number that a new handshake shows."""
        with closing(connect_tls(self.address(port), self.context)) as connection:
            certificate = connection.getpeercert()
            assert certificate is not None
            return int(str(certificate["serialNumber"]), 16)

    def https(self, context: ssl.SSLContext | None = None) -> HTTPSConnection:
        host, _, port = self.address("decision_http").rpartition(":")
        return HTTPSConnection(host, int(port), timeout=30, context=context or self.context)

    def reload(self) -> None:
        """Send SIGHUP, and wait until the reload is logged and done in workers too."""
        workers = ("every worker has the settings in force",) if self._has_workers else ()
        self.daemon.reload("the configuration is reloaded", *workers)

    def set_keys(self, **values: str) -> list[tuple[int, str | None]]:
        """Set keys by IncrementalAlterConfigs; ``a_b`` sets the key ``a.b``."""
        configs = [
            SimpleNamespace(
                name=name.replace("_", "."), config_operation=AlterOperation.SET, value=value
            )
            for name, value in values.items()
        ]
        resource = SimpleNamespace(resource_type=4, resource_name="1", configs=configs)
        with closing(KafkaConnection(self.address("SECURE"), context=self.context)) as admin:
            answer = admin.ask(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
            )
        return [(int(each.error_code), each.error_message) for each in answer.responses]


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
def site(request: pytest.FixtureRequest, tmp_path_factory: TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    authority = Authority(folder)
    keystore = str(authority.issue("server", *HOSTS))
    config = {
        "listeners": "SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "SECURE:SSL",
        LOCATION: keystore,
        HTTP_LOCATION: keystore,
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.decision.stream": "tls://127.0.0.1:0",
        "authorizerd.workers": str(request.param),
        "super.users": "User:ANONYMOUS",
        "authorizerd.overload.turn.ms": "3600000",  # never shed load because the machine is slow
    }
    with running(folder, new_log(folder), config) as daemon:
        yield Site(daemon, authority, folder, has_workers=request.param > 1)


class Load:
    """Requests on open connections, and handshakes on new ones, each in its own thread.

    Attributes:
        done: how many requests each has made, or how many new connections.
        faults: what has gone wrong.
        stale: how many new handshakes have shown an older certificate than the newest in use.
    """

    def __init__(self, site: Site) -> None:
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []
        self.in_use: list[int] = [site.serial("SECURE")]
        """All serial numbers in use so far. The last one is the newest acknowledged one."""
        self.stale = 0
        self._site = site
        self._ends = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        tasks = [self._keep_https, self._keep_stream, self._keep_kafka, self._connect_anew]
        threads = [threading.Thread(target=self._guard, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len(self.done) == len(tasks) or bool(self.faults), "the load runs")
            yield
        finally:
            self._ends.set()
            for thread in threads:
                thread.join()

    def _guard(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception as error:  # noqa: BLE001 - the test reports it
            self.faults.append(f"{task.__name__}: {error!r}")

    def _keep_https(self) -> None:
        headers = {"Content-Type": "application/json"}
        body = json.dumps(evaluation()).encode()
        with closing(self._site.https()) as connection:
            connection.connect()
            connection.auto_open = False  # a dropped connection is a fault
            while not self._ends.is_set():
                assert ask(connection, "POST", "/access/v1/evaluation", body, headers).status == 200
                self.done["https"] += 1

    def _keep_stream(self) -> None:
        address = self._site.address("decision_stream")
        with closing(StreamConnection(address, context=self._site.context)) as connection:
            for number in count():
                if self._ends.is_set():
                    return
                assert connection.ask(QUESTION, number=number).decisions
                self.done["stream"] += 1

    def _keep_kafka(self) -> None:
        address = self._site.address("SECURE")
        with closing(KafkaConnection(address, context=self._site.context)) as connection:
            while not self._ends.is_set():
                connection.metadata()
                self.done["kafka"] += 1

    def _connect_anew(self) -> None:
        while not self._ends.is_set():
            for port in PORTS:
                acknowledged = len(self.in_use)
                serial = self._site.serial(port)
                self.stale += serial in self.in_use[: acknowledged - 1]
                self.done["new"] += 1


def serial_of(keystore: Path) -> int:
    """Return the serial number of a keystore's own certificate."""
    text = keystore.read_text()
    start = text.index("-----BEGIN CERTIFICATE-----")
    return x509.load_pem_x509_certificate(text[start:].encode()).serial_number


def test_rotation_under_load_drops_no_connection(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    """Half of the changes come by SIGHUP, the others by AlterConfigs, and some are unusable."""
    reloads = {
        result: site.daemon.metric(f'authorizerd_reloads_total{{result="{result}"}}')
        for result in ("succeeded", "failed")
    }
    load = Load(site)
    acknowledgements: list[float] = []
    with load.running():
        for number in range(ROTATIONS):
            if number % 5 == 4:
                site.authority.issue("server", *HOSTS, not_after=expired())
                site.daemon.reload(f"not reloaded: {LOCATION}: ")
                assert site.daemon.metric("authorizerd_reload_failing") == 1
                path = str(site.authority.issue("old", *HOSTS, not_after=expired()))
                [(code, _)] = site.set_keys(**{LOCATION: path})
                assert code == ErrorCode.INVALID_REQUEST
                assert {site.serial(port) for port in PORTS} == {load.in_use[-1]}
            keystore = site.authority.issue("server", *HOSTS)
            started = time.perf_counter()
            if number % 2:
                keys = {LOCATION: str(keystore), HTTP_LOCATION: str(keystore)}
                assert site.set_keys(**keys) == [(0, None)]
            else:
                site.reload()
            acknowledgements.append(time.perf_counter() - started)
            load.in_use.append(serial_of(keystore))
            for _ in range(3):  # with workers, more than one answers
                assert {site.serial(port) for port in PORTS} == {load.in_use[-1]}
            time.sleep(0.1)
    assert load.faults == []
    assert load.stale == 0
    assert min(load.done.values()) > ROTATIONS
    for result, more in (("succeeded", ROTATIONS / 2), ("failed", ROTATIONS / 5)):
        name = f'authorizerd_reloads_total{{result="{result}"}}'
        assert site.daemon.metric(name) == reloads[result] + more
    for kind, port in (("http", "decision_http"), ("kafka", "SECURE")):
        labels = f'{{listener="{port}"}}'
        assert site.daemon.metric(f"authorizerd_{kind}_handshakes_failed_total{labels}") == 0
    record_property("done", dict(load.done))
    record_property("slowest acknowledgement in ms", max(acknowledgements) * 1000)


def test_expiry_of_the_certificate_in_use_is_exported(site: Site) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    keystore = site.authority.issue("server", *HOSTS, not_after=until)
    site.reload()
    number = serial_of(keystore)
    serial = number.to_bytes((number.bit_length() + 7) // 8, "big").hex().upper()
    for listener in ("SECURE", "http"):
        labels = f'listener="{listener}",position="0",serial="{serial}"'
        name = "authorizerd_certificate_expiry_timestamp_seconds"
        assert site.daemon.metric(f'{name}{{{labels},store="keystore"}}') == until.timestamp()


class TrustedClients:
    """Open connections of one client with a certificate, one to each port."""

    def __init__(self, site: Site, context: ssl.SSLContext) -> None:
        with ExitStack() as stack:
            self._kafka = KafkaConnection(site.address("SECURE"), context=context)
            stack.callback(self._kafka.close)
            self._https = site.https(context)
            stack.callback(self._https.close)
            self._https.connect()
            self._https.auto_open = False
            self._stream = StreamConnection(site.address("decision_stream"), context=context)
            stack.callback(self._stream.close)
            self.ask()
            self.close = stack.pop_all().close

    def ask(self) -> None:
        """Send a request over each connection; raise an error if one has ended."""
        self._kafka.metadata()
        assert ask(self._https, "GET", "/").status == 404
        self._stream.ask(QUESTION)

    def are_ended(self) -> bool:
        """Wait until the daemon has ended all three connections without sending anything more."""
        assert self._https.sock is not None
        sockets = [self._kafka.socket, self._https.sock, self._stream.socket]
        return all(_read_end(each) for each in sockets)


def _read_end(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
def mutual(request: pytest.FixtureRequest, tmp_path_factory: TempPathFactory) -> Iterator[Site]:
    """Return a daemon whose ports all require a client certificate."""
    folder = tmp_path_factory.mktemp("mutual")
    authority = Authority(folder)
    trusted = folder / "trusted.pem"
    trusted.write_bytes(authority.ca_file.read_bytes())
    trust = {"client_auth": "required", "truststore_location": str(trusted)}
    config = {
        "listeners": "SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "SECURE:SSL",
        **authority.server_keys("listener.name.secure.", **trust),
        **authority.server_keys(**trust),
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.decision.stream": "tls://127.0.0.1:0",
        "authorizerd.workers": str(request.param),
    }
    with running(folder, new_log(folder), config) as daemon:
        yield Site(daemon, authority, folder, has_workers=request.param > 1)


def test_connections_end_when_a_ca_leaves_the_truststore(mutual: Site, tmp_path: Path) -> None:
    """They continue when a CA is added, and when the server's certificate is replaced."""
    trusted, other = mutual.truststore, Authority(tmp_path, "other")
    first = mutual.authority.client_context(mutual.authority.issue("first", common_name="first"))
    second = mutual.authority.client_context(other.issue("second", common_name="second"))
    with closing(TrustedClients(mutual, first)) as clients:
        mutual.authority.issue("server", *HOSTS)
        mutual.reload()
        clients.ask()
        trusted.write_bytes(mutual.authority.ca_file.read_bytes() + other.ca_file.read_bytes())
        mutual.reload()
        clients.ask()
        with closing(TrustedClients(mutual, second)) as others:
            trusted.write_bytes(other.ca_file.read_bytes())
            mutual.reload()
            assert clients.are_ended()
            assert others.are_ended()  # they must prove again who they are
    for port in PORTS:  # in TLS 1.3, the refusal comes only after the client's handshake
        with (
            pytest.raises((ssl.SSLError, ConnectionError)),
            closing(connect_tls(mutual.address(port), first)) as connection,
        ):
            connection.recv(1)
    with closing(TrustedClients(mutual, second)) as others:
        others.ask()


def test_connection_ends_when_its_certificate_expires(mutual: Site) -> None:
    mutual.truststore.write_bytes(mutual.authority.ca_file.read_bytes())
    mutual.reload()
    name = 'authorizerd_kafka_connections_ended_total{listener="SECURE",reason="expired"}'
    before = mutual.daemon.metric(name)
    until = datetime.now(UTC) + timedelta(seconds=3)
    keystore = mutual.authority.issue("short", common_name="short", not_after=until)
    with closing(TrustedClients(mutual, mutual.authority.client_context(keystore))) as clients:
        assert clients.are_ended()
        assert timedelta(seconds=-1) < datetime.now(UTC) - until < timedelta(seconds=5)
    wait_until(
        lambda: mutual.daemon.metric(name) == before + 1, "the expired connection is counted"
    )


def test_every_worker_asks_for_certificates_after_a_reload(tmp_path: Path) -> None:
    """A worker that starts later does so too, although it begins with the first settings."""
    authority, log_dir = Authority(tmp_path), new_log(tmp_path)
    config = {
        **authority.server_keys(),
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.workers": "2",
    }
    asked = {"client_auth": "requested", "truststore_location": str(authority.ca_file)}
    body = json.dumps(evaluation()).encode()
    with running(tmp_path, log_dir, config) as daemon:
        site = Site(daemon, authority, tmp_path, has_workers=True)

        def statuses(context: ssl.SSLContext) -> set[int]:
            """Return the statuses that new connections get."""
            found = set()
            for _ in range(20):
                with closing(site.https(context)) as connection:
                    headers = {"Content-Type": "application/json"}
                    answer = ask(connection, "POST", "/access/v1/evaluation", body, headers)
                    found.add(answer.status)
            return found

        assert statuses(site.context) == {200}
        write_config(tmp_path, log_dir, {**config, **authority.server_keys(**asked)})
        site.reload()
        assert statuses(site.context) == {401}
        keystore = authority.issue("client", common_name="alice")
        assert statuses(authority.client_context(keystore)) <= {200, 403}
        os.kill(min(children(daemon.process.pid)), signal.SIGKILL)
        wait_until(lambda: daemon.metric("authorizerd_worker_restarts_total") == 1, "it ends")
        wait_until(lambda: daemon.metric("authorizerd_workers") == 2, "it is replaced")
        assert statuses(site.context) == {401}
