"""Daemons that follow a cluster, and questions that are asked all the time."""

import json
import random
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from authorizerd.acl.model import Acl, Question
from authorizerd.protocol.decisions.stream import ALLOWED, DENIED
from tests.conformance.churn import QUESTIONS
from tests.kafka_rig.broker import ADMIN
from tests.kafka_rig.cluster_settings import NODE
from tests.kafka_rig.properties import PLAIN_LOGIN
from tests.support.background import Background
from tests.support.daemon_process import (
    COMMAND,
    ROOT,
    Answer,
    ask_at,
    evaluate_at,
    wait_until,
    write_config,
)
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import stream_question
from tests.support.stream_connection import StreamConnection

ASKED = 20
PAUSE_SECONDS = 0.02
END_SECONDS = 60.0
LISTENER = "CLIENTS"
PASSWORD = NODE.users[ADMIN]
OWN = {
    "node.id": "9",
    "super.users": f"User:{ADMIN}",
    "listeners": f"{LISTENER}://127.0.0.1:0",
    "listener.security.protocol.map": f"CONTROLLER:SASL_PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN_LOGIN} user_{ADMIN}="{PASSWORD}";',
}
"""A follower's own settings: its super users are those of the cluster."""


class Follower:
    """A daemon that can be killed and started again on its copy; ``source`` names the cluster."""

    def __init__(self, folder: Path, source: Mapping[str, str]) -> None:
        folder.mkdir()
        self.log = folder / "daemon.log"
        self.copy = folder / "copy"
        self.config = folder / "server.properties"
        self.source = dict(source)
        self.ready: dict[str, Any] = {}
        self._folder = folder
        self._ready_file = folder / "ready.json"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self, *, waits: bool = True) -> None:
        """Start the daemon; wait until it is ready."""
        write_config(self._folder, self.copy, self.source | OWN)
        self._ready_file.unlink(missing_ok=True)
        # A file and no pipe, since nobody reads the log while the daemon runs.
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*COMMAND, "serve", "--config", self.config, "--ready-file", self._ready_file],
                cwd=ROOT,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        if waits:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        process = self._process
        assert process is not None

        def is_ready() -> bool:
            assert process.poll() is None, self.log.read_text()[-3000:]
            return self._ready_file.exists()

        wait_until(is_ready, f"{self._folder.name} is ready: {self.log}")
        self.ready = json.loads(self._ready_file.read_bytes())

    def kill(self) -> None:
        """End the daemon with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def listener(self) -> str:
        """The address of the Kafka listener, where the cluster's admin is a super user."""
        address: str = self.ready["listeners"][LISTENER]
        return address

    def connect(self) -> StreamConnection:
        return StreamConnection(self.ready["decision_stream"])

    def wait_for_offset(self, offset: int) -> None:
        """Wait until the daemon decides by a state that includes this offset."""
        with closing(self.connect()) as connection:
            answer = connection.ask(stream_question(QUESTIONS[0]), min_offset=offset)
        assert (answer.error_code, answer.offset >= offset) == (0, True), (offset, answer)

    def describe(self) -> set[Acl]:
        """Return the ACLs that the Kafka listener describes, each of which must occur once."""
        with closing(KafkaConnection(self.listener, ADMIN, PASSWORD)) as connection:
            described = connection.describe()
        assert isinstance(described, list), described
        assert len(set(described)) == len(described)
        return set(described)

    def readiness(self) -> Answer:
        return ask_at(self.ready["admin_http"], "GET", "/readyz")

    def wait_until_not_ready(self) -> None:
        """Wait until /readyz says that the daemon does not decide."""
        wait_until(lambda: self.readiness().status == 503, f"{self._folder.name} is not ready")

    def evaluate(self, evaluation: object) -> Answer:
        """Ask one question over AuthZEN."""
        return evaluate_at(self.ready["decision_http"], evaluation)


@dataclass
class Decisions:
    """Answers with the offset of the state that gave them, in the order of the answers."""

    offsets: list[int] = field(default_factory=list)
    asked: list[list[Question]] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    not_ready: int = 0
    reconnected: int = 0


class Asker(Background):
    """Ask a follower random questions until the block ends; connect again after each break."""

    def __init__(self, follower: Follower, seed: int) -> None:
        super().__init__()
        self.decisions = Decisions()
        self._follower = follower
        self._random = random.Random(seed)

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                connection = self._follower.connect()
            except (OSError, AssertionError):  # the daemon is not there
                time.sleep(PAUSE_SECONDS)
                continue
            try:
                self._ask(connection)
            except (OSError, AssertionError):
                self.decisions.reconnected += 1
            finally:
                connection.close()

    def _ask(self, connection: StreamConnection) -> None:
        decisions = self.decisions
        while not self._ends.is_set():
            asked = self._random.sample(QUESTIONS, ASKED)
            answer = connection.ask(*map(stream_question, asked))
            if answer.error_code or not {*answer.decisions} <= {ALLOWED, DENIED}:
                decisions.not_ready += 1
            else:
                decisions.offsets.append(answer.offset)
                decisions.asked.append(asked)
                decisions.answers.append(bytes(answer.decisions))
            time.sleep(PAUSE_SECONDS)
