"""A daemon on known ports that is started again whenever it ends, as a service manager does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from typing import IO, Final

from ops.bench.processes import children_of
from ops.kafka_rig.properties import PLAIN_LOGIN, find_lasting_ports, local_address
from tests.chaos.clients import ADMIN, PASSWORD, USERS, Ports
from tests.support.daemon_process import COMMAND, ROOT, write_config
from tests.support.forked_command import StartedCommand, start_command

_RESTART_SECONDS: Final = 0.2
_END_SECONDS: Final = 60.0
WORKERS: Final = 2
SETTINGS: Final = {
    "super.users": f"User:{ADMIN}",
    "authorizerd.workers": str(WORKERS),
    "authorizerd.worker.timeout.ms": "3000",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
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

    ``starts`` counts. The log of all its lives is ``daemon.log`` in ``folder``.

    Args:
        environment: variables for the daemon besides those of this process; with any, each start
            is that of a program.
    """

    def __init__(
        self,
        folder: Path,
        log_dir: Path,
        config: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        kafka, http, stream, admin = map(local_address, find_lasting_ports(4))
        self.ports = Ports(kafka=kafka, http=http, stream=stream)
        self.admin = admin
        self.starts = 0
        self.log_dir = log_dir
        self.ready_file = folder / "ready.json"
        addresses = {
            "listeners": f"CLIENTS://{kafka}",
            "authorizerd.decision.http": f"http://{http}",
            "authorizerd.decision.stream": f"tcp://{stream}",
            "authorizerd.admin.http": f"http://{admin}",
        }
        self._config = write_config(folder, log_dir, {**SETTINGS, **addresses, **config})
        self._environment = environment or {}
        self._log = folder / "daemon.log"
        self._errors: IO[str] = self._log.open("a")
        self._ends = Event()
        self._process = self._start()
        self._thread = Thread(target=self._supervise)
        self._thread.start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers."""
        return children_of(self._process.pid)

    def read_log(self) -> str:
        """Return what the daemon has logged in all its lives."""
        return self._log.read_text(errors="replace")

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
        self.starts += 1
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
