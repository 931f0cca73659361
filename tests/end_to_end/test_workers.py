"""Real worker processes: what is acknowledged is decided by in all of them, whatever befalls one.

``AUTHORIZERD_TEST_WORKER_CHANGES`` says through how many changes two workers are followed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType
from authorizerd.acl.model import ResourceType as Type
from authorizerd.protocol.decisions.stream import StreamQuestion
from tests.end_to_end.test_durability import Connection, new_log
from tests.end_to_end.test_reload import alter, wait_for
from tests.end_to_end.test_stream import Client
from tests.end_to_end.worker_processes import children, client_of_each, is_alive, wait_until
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    ask,
    run,
    running,
    write_config,
)

STREAM_ALLOWED: Final = 'authorizerd_decisions_total{result="allowed",surface="Stream"}'
STREAM_DENIED: Final = 'authorizerd_decisions_total{result="denied",surface="Stream"}'
CHANGES: Final = int(os.environ.get("AUTHORIZERD_TEST_WORKER_CHANGES", "400"))
TOPICS: Final = [f"t{number}" for number in range(6)]
USERS: Final = [f"User:{number}" for number in range(3)]
QUESTIONS: Final[list[StreamQuestion]] = [
    (user, None, "READ", "TOPIC", topic) for topic in TOPICS for user in USERS
]
SETTINGS: Final = {"super.users": "User:ANONYMOUS", "authorizerd.workers": "2"}


@contextmanager
def two_workers(folder: Path, log_dir: Path, **settings: str) -> Iterator[DaemonProcess]:
    config = SETTINGS | {key.replace("_", "."): value for key, value in settings.items()}
    with running(folder, log_dir, config) as daemon:
        assert daemon.metric("authorizerd_workers") == 2
        assert ask(daemon.admin, "GET", "/readyz").status == 200
        yield daemon


def acl(topic: str, user: str, permission: PermissionType = PermissionType.ALLOW) -> Acl:
    return Acl(Type.TOPIC, topic, PatternType.LITERAL, user, "*", Operation.READ, permission)


def allowed(client: Client, *questions: StreamQuestion) -> list[bool]:
    answer = client.ask(*questions)
    assert answer.error_code == 0
    return [decision == 1 for decision in answer.decisions]


def expected(acls: set[Acl], super_user: str) -> list[bool]:
    """Return what a plain look at the ACLs says of each question."""

    def has(user: str, topic: str, permission: PermissionType) -> bool:
        return acl(topic, user, permission) in acls

    return [
        user == super_user
        or (has(user, topic, PermissionType.ALLOW) and not has(user, topic, PermissionType.DENY))
        for user, _, _, _, topic in QUESTIONS
    ]


def test_a_decision_after_an_acknowledgement_uses_it_through_every_worker(
    tmp_path: Path,
) -> None:
    """Of creations, deletions, and of who is a super user: none is ever answered as before."""
    chance = random.Random(8)
    acls: set[Acl] = set()
    super_user = ""
    with two_workers(tmp_path, new_log(tmp_path)) as daemon:
        clients = client_of_each(daemon)
        writer = Connection(daemon)
        admin = AdminClient({"bootstrap.servers": daemon.ready["listeners"]["PLAINTEXT"]})
        for number in range(CHANGES):
            topic, user = chance.choice(TOPICS), chance.choice(USERS)
            if number % 100 == 50:
                super_user = user
                assert alter(admin, super_users=f"User:ANONYMOUS;{user}") is None
            elif chance.random() < 0.3:
                gone = {each for each in acls if each.resource_name == topic}
                assert writer.delete(topic) == len(gone)
                acls -= gone
            else:
                new = [acl(topic, user, PermissionType(chance.choice((2, 3, 3))))]
                new = new * (not acls.issuperset(new)) or [acl(topic, user)]
                writer.create(new)
                acls.update(new)
            for worker in chance.sample(sorted(clients), len(clients)):
                answers = allowed(clients[worker], *QUESTIONS)
                assert answers == expected(acls, super_user), f"change {number}, {worker}"
        for client in clients.values():
            client.socket.close()
        writer.close()
        assert daemon.metric("authorizerd_worker_restarts_total") == 0
        wait_until(
            lambda: (
                daemon.metric(STREAM_ALLOWED, absent=0) + daemon.metric(STREAM_DENIED, absent=0)
                == CHANGES * 2 * len(QUESTIONS)
            ),
            "the counts of both workers are added up",
        )
        assert daemon.stop()[0] == 0


def replaced_once(daemon: DaemonProcess) -> bool:
    restarts = daemon.metric("authorizerd_worker_restarts_total")
    return restarts == 1 and daemon.metric("authorizerd_workers") == 2


class Load:
    """A client that asks without end, and knows how its connection has ended."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answers = 0
        self.was_cut = False
        self.stopped = Event()

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                allowed(self.client, *QUESTIONS)
                self.answers += 1
        except (OSError, AssertionError):
            self.was_cut = True
        finally:
            self.client.socket.close()


def test_a_killed_worker_costs_its_own_connections_alone(tmp_path: Path) -> None:
    """Under load: nothing acknowledged is lost, the other goes on, and a new one knows all."""
    with (
        two_workers(tmp_path, new_log(tmp_path)) as daemon,
        ThreadPoolExecutor() as threads,
    ):
        loads = {worker: Load(client) for worker, client in client_of_each(daemon).items()}
        running_loads = [threads.submit(load.run) for load in loads.values()]
        writer = Connection(daemon)
        victim, other = loads
        for number in range(100):
            if number == 50:
                os.kill(victim, signal.SIGKILL)
            writer.create([acl(f"n{number}", "User:a")])
        answers = loads[other].answers
        wait_until(lambda: loads[victim].was_cut, "the victim's connection ends")
        wait_until(lambda: loads[other].answers > answers + 10, "the other goes on")
        wait_until(lambda: replaced_once(daemon), "it is replaced")
        loads[other].stopped.set()
        for each in running_loads:
            each.result(SECONDS_MAX)
        assert not loads[other].was_cut
        assert daemon.metric("authorizerd_worker_restarts_total") == 1
        clients = client_of_each(daemon)
        assert victim not in clients
        for client in clients.values():
            asked: list[StreamQuestion] = [
                ("User:a", None, "READ", "TOPIC", f"n{number}") for number in range(100)
            ]
            assert allowed(client, *asked) == [True] * 100
            client.socket.close()
        writer.close()
        assert daemon.stop()[0] == 0


def test_a_worker_that_hangs_is_taken_out_and_replaced(tmp_path: Path) -> None:
    """An update waits for it as long as the time-out says, and is then acknowledged."""
    log_dir = new_log(tmp_path)
    with two_workers(tmp_path, log_dir, authorizerd_worker_timeout_ms="1500") as daemon:
        victim = min(children(daemon.process.pid))
        writer = Connection(daemon)
        os.kill(victim, signal.SIGSTOP)
        writer.create([acl("t", "User:a")])
        assert not is_alive(victim), "as long as it lives it might answer by what was before"
        wait_until(lambda: replaced_once(daemon), "it is replaced")
        for client in client_of_each(daemon).values():
            assert allowed(client, ("User:a", None, "READ", "TOPIC", "t")) == [True]
            client.socket.close()
        writer.close()
        assert daemon.stop()[0] == 0


@pytest.mark.parametrize("place", ["tcp://127.0.0.1:0", "unix:{}/stream"])
def test_sigterm_drains_the_workers(tmp_path: Path, place: str) -> None:
    """Requests under way are answered; no process and no listening socket is left."""
    settings = {"authorizerd_decision_stream": place.format(tmp_path)}
    with two_workers(tmp_path, new_log(tmp_path), **settings) as daemon:
        workers = children(daemon.process.pid)
        clients = [Client(daemon.ready["decision_stream"]) for _ in range(8)]
        for client in clients:
            assert allowed(client, *QUESTIONS) == [False] * len(QUESTIONS)
        code, errors = daemon.stop()
        assert code == 0, errors
        assert not any(map(is_alive, workers))
        for client in clients:
            assert client.socket.recv(1) == b""
            client.socket.close()
        host, _, port = daemon.ready["decision_http"].rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), SECONDS_MAX)


def test_workers_end_with_a_killed_daemon(tmp_path: Path) -> None:
    """They would not learn of changes; and a new daemon finds its ports free."""
    log_dir = new_log(tmp_path)
    with two_workers(tmp_path, log_dir) as daemon:
        workers = children(daemon.process.pid)
        address = daemon.ready["decision_http"]
        daemon.process.kill()
        daemon.process.wait()
        wait_until(lambda: not any(map(is_alive, workers)), "they end")
    with two_workers(tmp_path, log_dir, authorizerd_decision_http=f"http://{address}") as daemon:
        assert daemon.stop()[0] == 0


def test_a_port_of_another_daemon_s_workers_is_not_shared(tmp_path: Path) -> None:
    """Otherwise some clients would be answered from another daemon's log."""
    (tmp_path / "other").mkdir()
    with two_workers(tmp_path, new_log(tmp_path)) as daemon:
        address = f"http://{daemon.ready['decision_http']}"
        with (
            pytest.raises(AssertionError, match=r"decision\.http: .* Address already in use"),
            two_workers(
                tmp_path / "other",
                new_log(tmp_path / "other"),
                authorizerd_decision_http=address,
            ),
        ):
            pass
        assert daemon.stop()[0] == 0


def write_tokens(path: Path, secret: str) -> None:
    path.write_text(f"a {sha256(secret.encode()).hexdigest()} User:caller\n")


def test_sighup_reaches_every_worker(tmp_path: Path) -> None:
    """Super users and valid tokens change, on open connections too."""
    log_dir = new_log(tmp_path)
    tokens = tmp_path / "tokens"
    write_tokens(tokens, "first")
    settings = SETTINGS | {"authorizerd.tokens.file": str(tokens)}
    with running(tmp_path, log_dir, settings) as daemon:
        clients = client_of_each(daemon, "a.first")
        asked: StreamQuestion = ("User:caller", None, "READ", "TOPIC", "t")
        for client in clients.values():
            assert allowed(client, asked) == [False]
        write_config(tmp_path, log_dir, settings | {"super.users": "User:caller"})
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(daemon, "every worker has the settings")
        for client in clients.values():
            assert allowed(client, asked) == [True]
        write_tokens(tokens, "second")
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(daemon, "every worker has the settings")
        for client in clients.values():
            assert client.ask(asked).error_code != 0
            client.socket.close()
        for client in client_of_each(daemon, "a.second").values():
            assert allowed(client, asked) == [True]
            client.socket.close()
        assert daemon.stop()[0] == 0


def test_a_replaced_worker_has_the_tokens_in_force(tmp_path: Path) -> None:
    """Those of the daemon, whatever has become of the file since it was read."""
    tokens = tmp_path / "tokens"
    write_tokens(tokens, "first")
    settings = {"authorizerd_tokens_file": str(tokens)}
    with two_workers(tmp_path, new_log(tmp_path), **settings) as daemon:
        tokens.write_text("no entry\n")
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(daemon, "the configuration is not reloaded")
        os.kill(min(children(daemon.process.pid)), signal.SIGKILL)
        wait_until(lambda: replaced_once(daemon), "it is replaced")
        for client in client_of_each(daemon, "a.first").values():
            assert allowed(client, ("User:caller", None, "READ", "TOPIC", "t")) == [False]
            client.socket.close()
        assert daemon.stop()[0] == 0


def test_answers_over_http_come_from_workers_too(tmp_path: Path) -> None:
    """Counted there, and audited there, into the one file."""
    audit = tmp_path / "audit.log"
    settings = {"authorizerd_audit_log": str(audit), "authorizerd_audit_format": "json"}
    body = {
        "subject": {"type": "user", "id": "alice"},
        "action": {"name": "read"},
        "resource": {"type": "topic", "id": "orders"},
    }
    with two_workers(tmp_path, new_log(tmp_path), **settings) as daemon:
        for _ in range(20):
            assert daemon.evaluate(body).json["decision"] is False
            daemon.decision.close()  # the next one goes to either worker
        name = 'authorizerd_decisions_total{result="denied",surface="AuthZEN"}'
        wait_until(lambda: daemon.metric(name, absent=0) == 20, "all are counted")
        wait_until(lambda: daemon.metric("authorizerd_audit_written_total") == 20, "and written")
        assert daemon.stop()[0] == 0
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line["principal"] for line in lines] == ["User:alice"] * 20


def test_a_worker_without_a_daemon_is_refused() -> None:
    """Nobody else has a feed for it."""
    done = run("worker", "--feed-fd", "99")
    assert done.returncode == 1
    assert done.stderr.endswith("Bad file descriptor: only a daemon starts workers\n")
