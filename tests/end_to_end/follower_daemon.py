"""A daemon that follows a scripted quorum, and need not be ready."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Final

from authorizerd.protocol.kafka.error_codes import ApiError
from tests.kafka_rig.properties import find_lasting_ports
from tests.support.daemon_process import (
    SECONDS_MAX,
    Answer,
    ask_at,
    evaluate_at,
    wait_until,
    write_config,
)
from tests.support.forked_command import StartedCommand, start_command
from tests.support.kafka_connection import KafkaConnection
from tests.support.quorum_thread import QuorumThread
from tests.support.requests import evaluation

DESCRIBE_VERSION: Final = 3


class Follower:
    """A daemon process on known ports."""

    def __init__(self, process: StartedCommand, ports: Mapping[str, int]) -> None:
        self.process = process
        self._ports = ports

    @property
    def listener(self) -> str:
        """The Kafka listener's address; every client is a super user."""
        return f"127.0.0.1:{self._ports['listener']}"

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of the admin port."""
        answer = ask_at(f"127.0.0.1:{self._ports['admin']}", "GET", path)
        return answer.status, answer.body.decode()

    @property
    def ready_text(self) -> str:
        """The text of /readyz, or an empty one before the admin port is open."""
        try:
            return self.get("/readyz")[1]
        except (OSError, HTTPException):
            return ""

    def wait_for(self, text: str) -> None:
        """Wait until /readyz contains ``text``."""

        def has_text() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return text in self.ready_text

        wait_until(has_text, f"/readyz says {text!r}, not {self.ready_text!r}")

    def metric(self, name: str) -> float:
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no metric {name}")

    def may_read(self, topic: str) -> bool | int | None:
        """Return the decision for User:a, or the status of an answer without one.

        Return None if the port is not open, or is closed before the answer.
        """
        try:
            answer = self.evaluate(topic)
        except ConnectionError:
            return None
        return bool(answer.json["decision"]) if answer.status == 200 else answer.status

    def evaluate(self, topic: str) -> Answer:
        """Return AuthZEN's answer to whether User:a may read."""
        return evaluate_at(f"127.0.0.1:{self._ports['decision']}", evaluation("a", topic=topic))

    def topics(self) -> set[str] | None:
        """Return the names of the topics that have ACLs; None if there is no listing now."""
        try:
            connection = KafkaConnection(self.listener)
        except ConnectionRefusedError:  # the listener opens once the daemon is ready
            return None
        with closing(connection):
            found = connection.describe()
        return None if isinstance(found, ApiError) else {acl.resource_name for acl in found}

    def wait_for_topics(self, *numbers: int) -> None:
        """Wait until exactly ``topic-NUMBER`` of these numbers have ACLs."""
        expected = {f"topic-{number}" for number in numbers}

        def has_topics() -> bool:
            assert self.process.poll() is None, "the daemon has ended"
            return self.topics() == expected

        wait_until(has_topics, f"{sorted(expected)} are followed")

    def kill(self) -> None:
        """End the daemon as a power failure would, except that the disk goes on."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def following(quorum: QuorumThread, folder: Path, **settings: str) -> Iterator[Follower]:
    """Run a daemon that follows ``quorum``, and logs to ``daemon.log``; kill it at the end."""
    names = ("listener", "decision", "admin")
    ports = dict(zip(names, find_lasting_ports(len(names)), strict=True))
    config = {
        **quorum.follower_keys,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports['listener']}",
        "authorizerd.decision.http": f"http://127.0.0.1:{ports['decision']}",
        "authorizerd.admin.http": f"http://127.0.0.1:{ports['admin']}",
        "super.users": "User:ANONYMOUS",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    config_file = write_config(folder, folder / "copy", config)
    with (folder / "daemon.log").open("a") as log:
        process = start_command(["serve", "--config", config_file], stderr=log)
    try:
        yield Follower(process, ports)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS_MAX)
