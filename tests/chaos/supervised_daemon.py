"""A daemon on known ports that is started again whenever it ends, as a service manager does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import IO, Final

from authorizerd.config.tokens import SECRET_BYTES, new_token
from tests.end_to_end.worker_processes import children
from tests.fleet.journal import Journal
from tests.fleet.ports import ADMIN, PASSWORD, Ports
from tests.fleet.universe import DAEMON
from tests.kafka_rig.properties import PLAIN_LOGIN, find_lasting_ports, local_address
from tests.support.certificates import Authority
from tests.support.daemon_process import COMMAND, ROOT, write_config
from tests.support.forked_command import StartedCommand, start_command

_RESTART_SECONDS: Final = 0.2
_END_SECONDS: Final = 60.0
USERS: Final = [each.removeprefix("User:") for each in DAEMON.askers]
SETTINGS: Final = {
    "super.users": f"User:{ADMIN}",
    "authorizerd.worker.timeout.ms": "3000",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.security.protocol.map": (
        "CONTROLLER:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT,SECURE:SSL"
    ),
    "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_LOGIN} "
    + " ".join(f'user_{each}="{PASSWORD}"' for each in (ADMIN, *USERS))
    + ";",
    "metadata.log.segment.bytes": "262144",
    "metadata.log.max.record.bytes.between.snapshots": "100000",
    "metadata.max.retention.bytes": "2000000",
}
"""Small segments and many checkpoints. A start reads both."""


class SupervisedDaemon:
    """Run the daemon on ``log_dir`` until the block ends.

    ``start_times`` has a time before each start. The log of all its lives is ``daemon.log`` in
    ``folder``.

    Args:
        worker_count: how many workers there are; 1: the daemon itself decides.
        journal: takes what clients of its ports are told.
        environment: variables for the daemon besides those of this process; with any, each start
            is that of a program.
    """

    def __init__(
        self,
        folder: Path,
        log_dir: Path,
        config: Mapping[str, str],
        worker_count: int,
        journal: Journal,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        kafka, tls, http, stream, admin = map(local_address, find_lasting_ports(5))
        tokens_file = folder / "tokens"
        token, line = new_token("chaos", f"User:{ADMIN}", os.urandom(SECRET_BYTES))
        tokens_file.write_text(f"{line}\n")
        tokens_file.chmod(0o640)
        self.ports = Ports(
            plain=kafka, secure=tls, decision_http=http, decision_stream=stream, token=token,
            judge=journal,
        )  # fmt: skip
        self.authority = Authority(folder)
        self.admin = admin
        self.start_times: list[float] = []
        self._worker_count = worker_count
        self.log_dir = log_dir
        self.ready_file = folder / "ready.json"
        addresses = {
            "listeners": f"CLIENTS://{kafka},SECURE://{tls}",
            "authorizerd.decision.http": f"http://{http}",
            "authorizerd.decision.stream": f"tcp://{stream}",
            "authorizerd.admin.http": f"http://{admin}",
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
        self._log = folder / "daemon.log"
        self._errors: IO[str] = self._log.open("a")
        self._ends = Event()
        self._process = self._start()
        self._thread = Thread(target=self._supervise)
        self._thread.start()

    @property
    def starts(self) -> int:
        """How often the daemon was started."""
        return len(self.start_times)

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers; none if the daemon has just ended."""
        with suppress(FileNotFoundError, ProcessLookupError):
            return sorted(children(self._process.pid))
        return []

    def renew_certificate(self, lifetime: timedelta | None = None) -> None:
        """Replace the certificate of the port with TLS, and let the daemon read it.

        Args:
            lifetime: it expires after this time; None: it does not.
        """
        end = None if lifetime is None else datetime.now(UTC) + lifetime
        self.authority.issue("server", "127.0.0.1", "localhost", not_after=end)
        self._process.send_signal(signal.SIGHUP)

    def read_log(self) -> str:
        """Return what the daemon has logged in all its lives."""
        return self._log.read_text(errors="replace")

    @property
    def is_complete(self) -> bool:
        """True if all worker processes exist."""
        return self._worker_count == 1 or len(self.workers) == self._worker_count

    def close(self) -> int:
        """End the daemon with SIGTERM, and return its exit code."""
        self._ends.set()
        self._thread.join()
        self._process.terminate()
        try:
            return self._process.wait(_END_SECONDS)
        finally:
            self._process.kill()
            self._errors.close()

    def _supervise(self) -> None:
        while not self._ends.wait(_RESTART_SECONDS):
            if self._process.poll() is not None:
                self._process = self._start()

    def _start(self) -> StartedCommand:
        self.start_times.append(time.monotonic())
        self.ready_file.unlink(missing_ok=True)
        words = ["serve", "--config", str(self._config), "--ready-file", str(self.ready_file)]
        if not self._environment:
            return start_command(words, stderr=self._errors)
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=ROOT,
            env=os.environ | self._environment,
            stderr=self._errors,
            text=True,
        )
