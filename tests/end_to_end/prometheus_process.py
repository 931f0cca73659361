"""A real Prometheus in a process, while a test runs."""

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

from tests.support.daemon_process import SECONDS_MAX, wait_until

_LISTENING = re.compile(r'msg="?Listening on"? .*address=(127\.0\.0\.1:\d+)')


class PrometheusProcess:
    """A Prometheus that is ready, by its HTTP API."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, arguments: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401
        """Return the ``data`` of a response."""
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
        """Return the alerts that are firing, by name."""
        return {
            alert["labels"]["alertname"]: alert
            for alert in self.get("alerts")["alerts"]
            if alert["state"] == "firing"
        }


@contextmanager
def prometheus(program: str, config: Path, folder: Path) -> Iterator[PrometheusProcess]:
    """Start Prometheus on a free port, and kill it at the end."""
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
    """Return True if Prometheus has read its stored data; until then it answers 503."""
    try:
        with urlopen(f"http://{address}/-/ready", timeout=SECONDS_MAX):
            return True
    except HTTPError as error:
        error.close()
        return False


def _address(process: subprocess.Popen[str], said: list[str]) -> str:
    """Wait until Prometheus logs its address."""
    give_up = time.monotonic() + SECONDS_MAX
    while True:
        for line in tuple(said):
            if match := _LISTENING.search(line):
                return match[1]
        assert process.poll() is None, "".join(said)
        assert time.monotonic() < give_up, "".join(said)
        time.sleep(0.02)
