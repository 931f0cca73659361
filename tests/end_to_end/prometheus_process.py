"""A real Prometheus in a process of its own, for the length of a test."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.end_to_end.worker_processes import wait_until
from tests.support.daemon_process import SECONDS_MAX

_LISTENING = re.compile(r'msg="?Listening on"? .*address=(127\.0\.0\.1:\d+)')


class PrometheusProcess:
    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, arguments: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401
        """Return the ``data`` of an answer of its HTTP API."""
        url = f"http://{self._address}/api/v1/{path}?{urlencode(arguments or {})}"
        with urlopen(url, timeout=SECONDS_MAX) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.get("query", {"query": expression})["result"]
        return result

    def rules_health(self) -> set[str]:
        groups = self.get("rules")["groups"]
        return {rule["health"] for group in groups for rule in group["rules"]}

    def firing(self) -> dict[str, dict[str, Any]]:
        """Return the alerts that fire now, by name."""
        return {
            alert["labels"]["alertname"]: alert
            for alert in self.get("alerts")["alerts"]
            if alert["state"] == "firing"
        }


@contextmanager
def prometheus(program: str, config: Path, folder: Path) -> Iterator[PrometheusProcess]:
    """Start it on a port of its own choice, and end it after."""
    process = subprocess.Popen(
        [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}",
            "--web.listen-address=127.0.0.1:0",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said: list[str] = []
    reader = threading.Thread(target=said.extend, args=(process.stderr,))
    reader.start()
    try:
        address = _address(process, said)
        wait_until(lambda: _is_ready(address), "Prometheus is ready")
        yield PrometheusProcess(address)
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


def _is_ready(address: str) -> bool:
    """Return True once it has read its stored data; until then it answers 503."""
    try:
        with urlopen(f"http://{address}/-/ready", timeout=SECONDS_MAX):
            return True
    except HTTPError as error:
        error.close()
        return False


def _address(process: subprocess.Popen[str], said: list[str]) -> str:
    """Wait until it says where it listens."""
    give_up = time.monotonic() + SECONDS_MAX
    while True:
        for line in tuple(said):
            if match := _LISTENING.search(line):
                return match[1]
        assert process.poll() is None, "".join(said)
        assert time.monotonic() < give_up, "".join(said)
        time.sleep(0.02)
