"""Real worker processes: every worker uses each acknowledged change, whatever happens to others.

``AUTHORIZERD_TEST_WORKER_CHANGES`` sets how many changes the first test makes.
"""

import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from authorizerd.acl.model import Acl
from authorizerd.image.changes import TopicAdded
from authorizerd.protocol.decisions.stream import StreamQuestion
from tests.daemon.decision_place import entry
from tests.end_to_end.worker_processes import (
    SETTINGS,
    children,
    client_of_each,
    is_alive,
    two_workers,
)
from tests.support.acls import acl
from tests.support.admin_client import alter_configs, new_admin
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    connect,
    new_log,
    run,
    running,
    wait_until,
    write_config,
)
from tests.support.kafka_connection import KafkaConnection
from tests.support.log_files import added, write_log
from tests.support.stream_connection import StreamConnection

STREAM_ALLOWED: Final = 'authorizerd_decisions_total{result="allowed",surface="Stream"}'
STREAM_DENIED: Final = 'authorizerd_decisions_total{result="denied",surface="Stream"}'
CHANGES: Final = int(os.environ.get("AUTHORIZERD_TEST_WORKER_CHANGES", "400"))
TOPICS: Final = [f"t{number}" for number in range(6)]
USERS: Final = [f"User:{number}" for number in range(3)]


def may_read(user: str, topic: str) -> StreamQuestion:
    return (user, None, "READ", "TOPIC", topic)


QUESTIONS: Final = [may_read(user, topic) for topic in TOPICS for user in USERS]


def allowed(client: StreamConnection, *questions: StreamQuestion) -> list[bool]:
    answer = client.ask(*questions)
    assert answer.error_code == 0
    return [decision == 1 for decision in answer.decisions]


def check_each_worker(
    daemon: DaemonProcess, *questions: StreamQuestion, expected: bool, token: str | None = None
) -> None:
    """Check that each worker gives the same answer to all questions."""
    for client in client_of_each(daemon, token).values():
        assert allowed(client, *questions) == [expected] * len(questions)
        client.close()


def writer_of(daemon: DaemonProcess) -> KafkaConnection:
    return KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])


def expected(acls: set[Acl], super_user: str) -> list[bool]:
    """Return the answer to each question, computed directly from the ACLs."""
    return [
        user == super_user
        or (acl(user, topic=topic) in acls and acl(user, topic=topic, deny=True) not in acls)
        for user, _, _, _, topic in QUESTIONS
    ]


def test_every_worker_uses_each_acknowledged_change(tmp_path: Path) -> None:
    """The changes are creations, deletions, and changes of super users."""
    chance = random.Random(8)
    acls: set[Acl] = set()
    super_user = ""
    with two_workers(tmp_path, new_log(tmp_path)) as daemon:
        clients = client_of_each(daemon)
        writer = writer_of(daemon)
        admin = new_admin(daemon)
        for number in range(CHANGES):
            topic, user = chance.choice(TOPICS), chance.choice(USERS)
            if number % 100 == 50:
                super_user = user
                assert alter_configs(admin, super_users=f"User:ANONYMOUS;{user}") is None
            elif chance.random() < 0.3:
                gone = {each for each in acls if each.resource_name == topic}
                assert writer.delete_name(topic) == len(gone)
                acls -= gone
            else:
                new = acl(user, topic=topic, deny=chance.choice((True, False, False)))
                new = new if new not in acls else acl(user, topic=topic)
                assert writer.create(new) == [None]
                acls.add(new)
            for worker in chance.sample(sorted(clients), len(clients)):
                answers = allowed(clients[worker], *QUESTIONS)
                assert answers == expected(acls, super_user), f"change {number}, {worker}"
        for client in clients.values():
            client.close()
        writer.close()
        assert daemon.metric("authorizerd_worker_restarts_total") == 0
        wait_until(
            lambda: (
                daemon.metric(STREAM_ALLOWED, absent=0) + daemon.metric(STREAM_DENIED, absent=0)
                == CHANGES * 2 * len(QUESTIONS)
            ),
            "the counts of both workers are summed",
        )
        assert daemon.stop()[0] == 0


def is_replaced(daemon: DaemonProcess) -> bool:
    restarts = daemon.metric("authorizerd_worker_restarts_total")
    return restarts == 1 and daemon.metric("authorizerd_workers") == 2


class Load:
    """A client that asks until it is stopped or its connection ends."""

    def __init__(self, client: StreamConnection) -> None:
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
            self.client.close()


def test_killed_worker_ends_only_its_own_connections(tmp_path: Path) -> None:
    """Under load: no acknowledged change is lost, and the new worker has them all."""
    with two_workers(tmp_path, new_log(tmp_path)) as daemon, ThreadPoolExecutor() as threads:
        loads = {worker: Load(client) for worker, client in client_of_each(daemon).items()}
        running_loads = [threads.submit(load.run) for load in loads.values()]
        writer = writer_of(daemon)
        victim, other = loads
        for number in range(100):
            if number == 50:
                os.kill(victim, signal.SIGKILL)
            assert writer.create(acl(topic=f"n{number}")) == [None]
        answers = loads[other].answers
        wait_until(lambda: loads[victim].was_cut, "the connection of the killed worker ends")
        wait_until(lambda: loads[other].answers > answers + 10, "the other goes on")
        wait_until(lambda: is_replaced(daemon), "the worker is replaced")
        loads[other].stopped.set()
        for each in running_loads:
            each.result(SECONDS_MAX)
        assert not loads[other].was_cut
        assert daemon.metric("authorizerd_worker_restarts_total") == 1
        assert victim not in children(daemon.process.pid)
        asked = [may_read("User:a", f"n{number}") for number in range(100)]
        check_each_worker(daemon, *asked, expected=True)
        writer.close()
        assert daemon.stop()[0] == 0


@pytest.mark.parametrize("place", ["tcp://127.0.0.1:0", "unix:{}/stream"])
def test_sigterm_drains_the_workers(tmp_path: Path, place: str) -> None:
    """Requests under way are answered; no process and no listening socket remains."""
    settings = {"authorizerd_decision_stream": place.format(tmp_path)}
    with two_workers(tmp_path, new_log(tmp_path), **settings) as daemon:
        workers = children(daemon.process.pid)
        clients = [StreamConnection(daemon.ready["decision_stream"]) for _ in range(8)]
        for client in clients:
            assert allowed(client, *QUESTIONS) == [False] * len(QUESTIONS)
        code, errors = daemon.stop()
        assert code == 0, errors
        assert not any(map(is_alive, workers))
        for client in clients:
            assert client.socket.recv(1) == b""
            client.close()
        with pytest.raises(ConnectionRefusedError):
            connect(daemon.ready["decision_http"])


def test_workers_end_with_a_killed_daemon(tmp_path: Path) -> None:
    """They would get no more changes. A new daemon can bind the same ports."""
    log_dir = new_log(tmp_path)
    with two_workers(tmp_path, log_dir) as daemon:
        workers = children(daemon.process.pid)
        address = daemon.ready["decision_http"]
        daemon.process.kill()
        daemon.process.wait()
        wait_until(lambda: not any(map(is_alive, workers)), "the workers end")
    with two_workers(tmp_path, log_dir, authorizerd_decision_http=f"http://{address}") as daemon:
        assert daemon.stop()[0] == 0


def test_port_of_another_daemons_workers_is_not_shared(tmp_path: Path) -> None:
    """Otherwise some clients would be answered from another daemon's log."""
    (tmp_path / "other").mkdir()
    with two_workers(tmp_path, new_log(tmp_path)) as daemon:
        address = f"http://{daemon.ready['decision_http']}"
        with (
            pytest.raises(AssertionError, match=r"decision\.http: .* Address already in use"),
            two_workers(
                tmp_path / "other", new_log(tmp_path / "other"), authorizerd_decision_http=address
            ),
        ):
            pass
        assert daemon.stop()[0] == 0


def test_reload_reaches_every_worker(tmp_path: Path) -> None:
    """Super users and valid tokens change, also for open connections."""
    log_dir = new_log(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text(entry("a", "User:caller", "first"))
    settings = SETTINGS | {"authorizerd.tokens.file": str(tokens)}
    with running(tmp_path, log_dir, settings) as daemon:
        clients = client_of_each(daemon, "a.first")
        asked = may_read("User:caller", "t")
        for client in clients.values():
            assert allowed(client, asked) == [False]
        write_config(tmp_path, log_dir, settings | {"super.users": "User:caller"})
        daemon.reload("every worker has the settings")
        for client in clients.values():
            assert allowed(client, asked) == [True]
        tokens.write_text(entry("a", "User:caller", "second"))
        daemon.reload("every worker has the settings")
        for client in clients.values():
            assert client.ask(asked).error_code != 0
            client.close()
        check_each_worker(daemon, asked, expected=True, token="a.second")
        assert daemon.stop()[0] == 0


def test_replaced_worker_uses_the_tokens_in_force(tmp_path: Path) -> None:
    """It gets the daemon's tokens, not those that the file contains now."""
    tokens = tmp_path / "tokens"
    tokens.write_text(entry("a", "User:caller", "first"))
    settings = {"authorizerd_tokens_file": str(tokens)}
    with two_workers(tmp_path, new_log(tmp_path), **settings) as daemon:
        tokens.write_text("no entry\n")
        daemon.reload("the configuration is not reloaded")
        os.kill(min(children(daemon.process.pid)), signal.SIGKILL)
        wait_until(lambda: is_replaced(daemon), "the worker is replaced")
        asked = may_read("User:caller", "t")
        check_each_worker(daemon, asked, expected=False, token="a.first")
        assert daemon.stop()[0] == 0


def test_worker_needs_a_daemon() -> None:
    """Only the daemon can feed it."""
    done = run("worker", "--feed-fd", "99")
    assert done.returncode == 1
    assert done.stderr.endswith("Bad file descriptor; only the daemon starts workers\n")


def test_workers_share_the_pages_of_a_search(tmp_path: Path) -> None:
    """Each page may come from another worker, and all workers know the topics."""
    names = sorted(f"orders-{number}" for number in range(10))
    topics = [TopicAdded(name, name.encode().ljust(16)) for name in names]
    log_dir = tmp_path / "log"
    write_log(
        log_dir,
        [added(1, acl("User:alice", "READ", topic="orders-", pattern="PREFIXED"))],
        topics,
    )
    search = {
        "subject": {"type": "user", "id": "alice"},
        "action": {"name": "read"},
        "resource": {"type": "topic"},
    }
    path = "/access/v1/search/resource"
    with two_workers(tmp_path, log_dir) as daemon:
        for _ in range(5):
            found: list[str] = []
            page: dict[str, object] = {"limit": 1}
            while page:
                daemon.decision.close()  # the next connection goes to either worker
                answer = daemon.evaluate(search | {"page": page}, path=path).json
                found += [each["id"] for each in answer["results"]]
                token = answer["page"]["next_token"]
                page = {"token": token} if token else {}
            assert found == ["orders-", *names]
        assert daemon.stop()[0] == 0
