"""A daemon on known ports that is started again whenever it ends, as a service manager does."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import IO, Final

from authorizerd.acl.model import Question
from authorizerd.config.tokens import SECRET_BYTES, new_token
from tests.fleet.client import PASSWORD, Place
from tests.fleet.journal import Journal
from tests.fleet.universe import DAEMON
from tests.kafka_rig.properties import PLAIN_LOGIN, find_lasting_ports, local_address
from tests.support.acls import question
from tests.support.certificates import Authority
from tests.support.daemon_process import COMMAND, ROOT, write_config
from tests.support.forked_command import StartedCommand, start_command

_RESTART_SECONDS: Final = 0.2
_END_SECONDS: Final = 60.0
ADMIN: Final = "admin"
"""The user of clients that change ACLs, and of their token."""
QUESTIONS: Final = [
    question(user, operation, topic=topic, host="127.0.0.1")
    for user in DAEMON.askers
    for topic in DAEMON.topics
    for operation in ("READ", "WRITE", "DESCRIBE")
]
USERS: Final = [each.removeprefix("User:") for each in DAEMON.askers]
SETTINGS: Final = {
    "super.users": f"User:{ADMIN}",
    "authorizerd.worker.timeout.ms": "3000",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.security.protocol.map": (
        "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT,SECURE:SSL"
    ),
    "listener.name.plaintext.plain.sasl.jaas.config": f"{PLAIN_LOGIN} "
    + " ".join(f'user_{each}="{PASSWORD}"' for each in (ADMIN, *USERS))
    + ";",
    "metadata.log.segment.bytes": "262144",
    "metadata.log.max.record.bytes.between.snapshots": "100000",
    "metadata.max.retention.bytes": "2000000",
}
"""Small segments and many checkpoints. A start reads both."""


class SupervisedDaemon(Place):
    """Run the daemon on ``log_dir`` until it is closed.

    ``start_times`` has a time before each start. The log of all its lives is ``log_file``. The
    listener PLAINTEXT asks for PLAIN, and SECURE has TLS. Clients give up soon.

    Args:
        worker_count: how many workers there are; 1: the daemon itself decides.
        journal: takes what clients of its ports are told.
        environment: variables for the daemon besides those of this process; with any, each start
            is that of a program.
    """

    judge: Journal
    user = ADMIN
    may_refuse = True
    seconds_max = 3.0

    def __init__(
        self,
        folder: Path,
        log_dir: Path,
        config: Mapping[str, str],
        worker_count: int,
        journal: Journal,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        *self.ports, admin = find_lasting_ports(5)
        plain, secure, http, stream = map(local_address, self.ports)
        listeners = {"PLAINTEXT": plain, "SECURE": secure}
        self.ready = {"decision_http": http, "decision_stream": stream, "listeners": listeners}
        self.judge = journal
        tokens_file = folder / "tokens"
        self.token, line = new_token("chaos", f"User:{ADMIN}", os.urandom(SECRET_BYTES))
        tokens_file.write_text(f"{line}\n")
        tokens_file.chmod(0o640)
        self.authority = Authority(folder)
        self.start_times: list[float] = []
        self._worker_count = worker_count
        self.log_dir = log_dir
        self.ready_file = folder / "ready.json"
        addresses = {
            "listeners": ",".join(f"{name}://{each}" for name, each in listeners.items()),
            "authorizerd.decision.http": f"http://{http}",
            "authorizerd.decision.stream": f"tcp://{stream}",
            "authorizerd.admin.http": f"http://{local_address(admin)}",
            "authorizerd.tokens.file": str(tokens_file),
            "authorizerd.workers": str(worker_count),
        }
        secured = self.authority.server_keys(
            "listener.name.secure.",
            client_auth="required",
            truststore_location=str(self.authority.ca_file),
            principal_mapping_rules="RULE:^.*CN=(u[0-9]+).*$/$1/",
        )
        keys = {**SETTINGS, **addresses, **secured, **config}
        self._config = write_config(folder, log_dir, keys)
        self._environment = environment or {}
        self.log_file = folder / "daemon.log"
        self._errors: IO[str] = self.log_file.open("a")
        self._ends = Event()
        self.process = self._start()
        self._thread = Thread(target=self._supervise)
        self._thread.start()

    def allows(self, status: int, text: str) -> str | None:
        return "HTTP: not ready" if status == 503 else None

    def draw_question(self, chance: Random) -> Question:
        return chance.choice(QUESTIONS)

    def renew_certificate(self, lifetime: timedelta | None = None) -> None:
        """Let the daemon read a new certificate of its port, which expires after ``lifetime``."""
        end = None if lifetime is None else datetime.now(UTC) + lifetime
        self.authority.issue("server", "127.0.0.1", "localhost", not_after=end)
        self.process.send_signal(signal.SIGHUP)

    @property
    def is_complete(self) -> bool:
        """True if all worker processes exist."""
        return self._worker_count == 1 or len(self.workers) == self._worker_count

    def close(self) -> int:
        """End the daemon with SIGTERM, and return its exit code."""
        self._ends.set()
        self._thread.join()
        self.process.terminate()
        try:
            return self.process.wait(_END_SECONDS)
        finally:
            self.process.kill()
            self._errors.close()

    def _supervise(self) -> None:
        while not self._ends.wait(_RESTART_SECONDS):
            if self.process.poll() is not None:
                self.process = self._start()

    def _start(self) -> StartedCommand:
        self.start_times.append(time.monotonic())
        self.ready_file.unlink(missing_ok=True)
        words = ["serve", "--config", str(self._config), "--ready-file", str(self.ready_file)]
        if not self._environment:
            return start_command(words, stderr=self._errors)
        return subprocess.Popen(
            [*COMMAND, *words], cwd=ROOT, env=os.environ | self._environment, stderr=self._errors,
            text=True,
        )  # fmt: skip
