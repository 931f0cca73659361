"""``make run``: run the daemon with a small log, and show a question with its answer.

Arguments are passed to ``authorizerd serve``, for example ``--override KEY=VALUE``.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

from tools.example.log import write_log

FOLDER: Final = Path(".run/example")
CONFIG: Final = Path(__file__).with_name("server.properties").read_text()
POLICY: Final = Path(__file__).with_name("access.yaml")
"""Policy tests of the example's ACLs."""
DESIRED: Final = Path(__file__).with_name("desired.yaml")
"""The desired ACLs, for a plan."""
PATH: Final = "/access/v1/evaluation"
EVALUATION: Final = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
    "context": {"host": "192.168.1.20"},
}
READY_SECONDS_MAX: Final = 30.0
TAKEN: Final = re.compile(
    r"authorizerd: (?P<key>[\w.]+): .*:(?P<port>\d+): Address already in use\b.*\s*"
)
"""The last line of a daemon that could not start because of a taken port."""
SCHEMES: Final = {"authorizerd.decision.stream": "tcp"}
"""The schemes of the addresses that are not HTTP, by key."""


def main(arguments: list[str]) -> int:
    """Start the daemon, show a question and its answer, and wait for the daemon's end."""
    if not (FOLDER / "log").exists():
        write_log(FOLDER / "log")
    config, ready_file = FOLDER / "server.properties", FOLDER / "ready.json"
    state = prepare_config(config)
    for file in (POLICY, DESIRED):
        (FOLDER / file.name).write_bytes(file.read_bytes())
    ready_file.unlink(missing_ok=True)
    command = Path(sys.executable).with_name("authorizerd")
    # Without a handler, SIGTERM would end this process and leave the daemon running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with subprocess.Popen(  # noqa: S603 - our own command
        [command, "serve", "--config", config, "--ready-file", ready_file, *arguments],
        stderr=subprocess.PIPE,
        text=True,
    ) as daemon:
        assert daemon.stderr is not None
        last: list[str] = []
        relay = Thread(target=_relay, args=(daemon.stderr, last), daemon=True)
        relay.start()
        try:
            ready = _wait_until_ready(daemon, ready_file)
            if ready is not None:
                _show(ready, state)
                return _wait(daemon)
            daemon.terminate()
            relay.join()
            sys.stderr.write("".join(map(advise, last)))
            return daemon.wait()
        except KeyboardInterrupt:
            return daemon.wait()
        finally:
            daemon.terminate()
            relay.join()  # it reads until the daemon has ended


def _wait(daemon: subprocess.Popen[str]) -> int:
    """Return the daemon's exit code. A wait without a limit could delay signals until then."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            return daemon.wait(timeout=1)


def prepare_config(path: Path) -> str:
    """Write the configuration unless the file exists, and describe which one is used."""
    if not path.exists():
        path.write_text(CONFIG)
    changed = path.read_text() != CONFIG
    return f"{path}, with your changes" if changed else str(path)


def advise(line: str) -> str:
    """Return a line that says how to use another port, if the daemon's last line is about one."""
    taken = TAKEN.fullmatch(line)
    if taken is None:
        return ""
    key, port = taken["key"], taken["port"]
    if key == "listeners":
        return f"make run: port {port} is taken: choose a free port with `make run PORT=19092`\n"
    scheme = SCHEMES.get(key, "http")
    return (
        f"make run: port {port} is taken: end its process, or choose a free port with a line"
        f" {key}={scheme}://127.0.0.1:PORT in {FOLDER}/server.properties\n"
    )


def _relay(lines: Iterable[str], last: list[str]) -> None:
    """Copy the daemon's standard error to ours, and leave its last line in ``last``."""
    for line in lines:
        sys.stderr.write(line)
        sys.stderr.flush()
        last[:] = [line]


def _wait_until_ready(daemon: subprocess.Popen[str], ready_file: Path) -> dict[str, Any] | None:
    """Return the content of the ready file, or None if the daemon ended."""
    give_up = time.monotonic() + READY_SECONDS_MAX
    while not ready_file.exists():
        if daemon.poll() is not None or time.monotonic() > give_up:
            return None
        time.sleep(0.02)
    ready: dict[str, Any] = json.loads(ready_file.read_bytes())
    return ready


def _show(ready: dict[str, Any], config: str) -> None:
    body = json.dumps(EVALUATION)
    headers = {"Content-Type": "application/json"}
    connection = HTTPConnection(ready["decision_http"], timeout=10)
    connection.request("POST", PATH, body, headers)
    answer = connection.getresponse().read().decode()
    connection.close()
    console = f"http://{ready['admin_http']}/console/"
    print(
        f"""
The daemon answers on http://{ready["decision_http"]}. May alice read the topic orders?

  curl -s http://{ready["decision_http"]}{PATH} \\
    -H 'Content-Type: application/json' -d {shlex.quote(body)}

  {answer}

ACLs are managed with any Kafka admin client, as the super user ANONYMOUS of this example:

  .venv/bin/authorizerd acls --bootstrap-server {ready["listeners"]["PLAINTEXT"]} \\
    --add --allow-principal User:carol --operation Read --topic orders

{_describe_console(console)}
Its configuration: {config}. Edit it, then run `make run` again.
Its state: curl http://{ready["admin_http"]}/readyz and /metrics. Ctrl-C ends it.
""",
        flush=True,
    )


def _describe_console(address: str) -> str:
    """Return a line about the web console, or an empty text if the configuration turns it off."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=10)
    try:
        connection.request("GET", urlsplit(address).path)
        is_on = connection.getresponse().status != HTTPStatus.NOT_FOUND
    except (OSError, HTTPException):  # the admin port has TLS
        return ""
    finally:
        connection.close()
    return f"Its web console: {address}" if is_on else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
