"""``make run``: run the daemon with a small log, and show a question with its answer.

Arguments are passed to ``authorizerd serve``, for example ``--override KEY=VALUE``.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from ops.example.log import NODE_ID, write_log

FOLDER: Final = Path(".run/example")
CONFIG: Final = f"""\
# Written by `make run`. Keys are Kafka's own where Kafka has one.
node.id={NODE_ID}
log.dirs={FOLDER}/log
# Every client without a log-in may do everything: fine for an example on loopback only.
super.users=User:ANONYMOUS
"""
POLICY: Final = Path(__file__).with_name("access.yaml")
"""Policy tests of the example's ACLs."""
PATH: Final = "/access/v1/evaluation"
EVALUATION: Final = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
    "context": {"host": "192.168.1.20"},
}
READY_SECONDS_MAX: Final = 30.0


def main(arguments: list[str]) -> int:
    """Start the daemon, show a question and its answer, and wait for the daemon's end."""
    if not (FOLDER / "log").exists():
        write_log(FOLDER / "log")
    config, ready_file = FOLDER / "server.properties", FOLDER / "ready.json"
    config.write_text(CONFIG)
    (FOLDER / POLICY.name).write_bytes(POLICY.read_bytes())
    ready_file.unlink(missing_ok=True)
    command = Path(sys.executable).with_name("authorizerd")
    # Without a handler, SIGTERM would end this process and leave the daemon running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with subprocess.Popen(  # noqa: S603 - our own command
        [command, "serve", "--config", config, "--ready-file", ready_file, *arguments]
    ) as daemon:
        try:
            ready = _wait_until_ready(daemon, ready_file)
            if ready is not None:
                _show(ready)
            return daemon.wait()
        except KeyboardInterrupt:
            return daemon.wait()
        finally:
            daemon.terminate()


def _wait_until_ready(daemon: subprocess.Popen[bytes], ready_file: Path) -> dict[str, Any] | None:
    """Return the content of the ready file, or None if the daemon ended."""
    give_up = time.monotonic() + READY_SECONDS_MAX
    while not ready_file.exists():
        if daemon.poll() is not None or time.monotonic() > give_up:
            return None
        time.sleep(0.02)
    ready: dict[str, Any] = json.loads(ready_file.read_bytes())
    return ready


def _show(ready: dict[str, Any]) -> None:
    body = json.dumps(EVALUATION)
    headers = {"Content-Type": "application/json"}
    connection = HTTPConnection(ready["decision_http"], timeout=10)
    connection.request("POST", PATH, body, headers)
    answer = connection.getresponse().read().decode()
    connection.close()
    print(
        f"""
The daemon answers on http://{ready["decision_http"]}. May alice read the topic orders?

  curl -s http://{ready["decision_http"]}{PATH} \\
    -H 'Content-Type: application/json' -d {shlex.quote(body)}

  {answer}

ACLs are managed with any Kafka admin client, as the super user ANONYMOUS of this example:

  .venv/bin/authorizerd acls --bootstrap-server {ready["listeners"]["PLAINTEXT"]} \\
    --add --allow-principal User:carol --operation Read --topic orders

Its state: curl http://{ready["admin_http"]}/readyz and /metrics. Ctrl-C ends it.
""",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
