"""The process of one Kafka node: start, readiness, pause, kill and end.

**Invariant:** a node is always ended by its own process id: with SIGTERM, then with SIGKILL if it
does not end in time.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.kafka_rig.rig import SOURCES, Rig, RigError, java_environment

START_TIMEOUT_SECONDS: Final = 180.0
STOP_TIMEOUT_SECONDS: Final = 30.0

_POLL_SECONDS: Final = 0.05
_SHOWN_LINES: Final = 30


class KafkaProcess:
    """A node's process. Its log is ``<name>.log`` in ``directory``, which also has the audit log.

    Args:
        rig: the release that runs; a change of the attribute ``rig`` counts from the next start.
        name: the word for the node in errors, and the name of its log.
        audit_level: INFO audits only denials.
        main_class: the class that runs with ``config`` as its argument.
        started: what the node logs once it is ready.
    """

    def __init__(
        self,
        rig: Rig,
        directory: Path,
        config: Path,
        *,
        name: str,
        jvm_options: Sequence[str],
        audit_level: str,
        main_class: str = "kafka.Kafka",
        started: str = "Kafka Server started",
    ) -> None:
        self.rig = rig
        self.audit_log = directory / "kafka-authorizer.log"
        self._name = name
        self._started = started
        self._log = directory / f"{name}.log"
        self._log_start = 0
        self._is_paused = False
        self._process: subprocess.Popen[bytes] | None = None
        self._run = (main_class, config)
        self._options = (
            *jvm_options,
            f"-Dlog4j2.configurationFile={SOURCES / 'broker-log4j2.properties'}",
            f"-Drig.audit.file={self.audit_log}",
            f"-Drig.audit.level={audit_level}",
        )

    @property
    def process_id(self) -> int:
        """The id of the process that was started last."""
        assert self._process is not None, "the node was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def can_answer(self) -> bool:
        """True if the process is running and not paused."""
        return self.is_running and not self._is_paused

    def start(self) -> None:
        """Start the process; do not wait."""
        assert not self.is_running, f"the {self._name} is running"
        with self._log.open("ab") as output:
            self._log_start = output.tell()
            self._is_paused = False
            self._process = subprocess.Popen(
                self.rig.command(*self._run, options=self._options),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=java_environment(),
            )

    def wait_until_ready(self) -> None:
        """Wait until the node logs that it has started.

        Raises:
            RigError: it did not; the text has its first errors.
        """
        give_up = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            ended = not self.is_running
            said = self._read_log()
            # A node may print this and end at once.
            if self._started in said and not ended:
                return
            if ended or time.monotonic() > give_up:
                what = "ended" if ended else f"was not ready in {START_TIMEOUT_SECONDS:g} s"
                raise RigError(f"the {self._name} {what}; {self._log} says\n{_summarize(said)}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Send SIGTERM and wait for the end, then SIGKILL if necessary. It may have ended."""
        if self._process is None:
            return
        # A paused process gets SIGTERM only after it continues.
        self._send(signal.SIGTERM, signal.SIGCONT)
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end. It may have ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Send SIGSTOP: its connections stay open, and it answers nothing."""
        self._send(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        """Send SIGCONT."""
        self._send(signal.SIGCONT)
        self._is_paused = False

    def _send(self, *signals: signal.Signals) -> None:
        assert self._process is not None, "the node was not started"
        for each in signals:
            self._process.send_signal(each)

    def _read_log(self) -> str:
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")


def _summarize(said: str) -> str:
    """Return a few lines of a log: from its first error on, or its end."""
    lines = said.splitlines()
    errors = [number for number, line in enumerate(lines) if "] ERROR " in line]
    start = errors[0] if errors else -_SHOWN_LINES
    return "\n".join(lines[start:][:_SHOWN_LINES])
