"""``make run-cluster``: follow a real Kafka cluster with two daemons, and show an ACL arrive.

Three controllers, a broker and the daemons run on 127.0.0.1, below ``.run/example_cluster``, until
Ctrl-C. All end with this program. With ``--once``, it ends once the ACL has arrived.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, NoReturn

from authorizerd.cli.program.ending import SIGNALS
from tests.kafka_rig.broker import ADMIN
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.rig import VERSION, Absent, Program, RigError, prepare
from tools.daemon_process import DaemonProcess, ready_daemon
from tools.processes import ProcessError

FOLDER: Final = Path(".run/example_cluster")
PATH: Final = "/access/v1/evaluation"
EVALUATION: Final = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
    "context": {"host": "192.168.1.20"},
}
ADDED: Final = "--add --allow-principal User:alice --operation Read --topic orders"
DAEMONS: Final = (1, 2)
CONSOLE: Final = {"authorizerd.console": "true"}
"""On loopback and without tokens, it needs no login."""
ALLOWED_SECONDS_MAX: Final = 10.0


def main(arguments: Sequence[str]) -> int:
    """Run the example and return the exit code."""
    parser = argparse.ArgumentParser(prog="make run-cluster")
    parser.add_argument("--once", action="store_true", help="end once the ACL has arrived")
    once: bool = parser.parse_args(arguments).once
    try:
        return _run(once=once)
    except (RigError, ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nKafka and the daemons have ended.")
        return 0


def _run(*, once: bool) -> int:
    print(f"Preparing Kafka {VERSION}. Maven downloads it the first time.", flush=True)
    rig = prepare()
    if isinstance(rig, Absent):
        print(
            f"No Kafka here: {rig.reason}. `make run-cluster` needs Java 17 (a JDK) and Maven;"
            " `make run` shows the daemon without them.",
            file=sys.stderr,
        )
        return 1
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    print("Starting three controllers and a broker.", flush=True)
    with running_cluster(rig, FOLDER.absolute() / "kafka") as cluster:
        _follow(cluster, once=once)
    print("\nKafka and the daemons have ended.")
    return 0


def _follow(cluster: Cluster, *, once: bool) -> None:
    """Run the daemons, until Ctrl-C unless ``once``."""
    source = quorum_source(cluster)
    print("\nTwo daemons follow the controllers. These lines of their configuration say how:\n")
    print("".join(f"  {key}={_shown(value)}\n" for key, value in source.items()), flush=True)
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(ready_daemon(folder, folder / "copy", source | CONSOLE))
            for folder in (FOLDER / f"daemon-{number}" for number in DAEMONS)
        ]
        print("May alice read the topic orders?\n")
        for number, daemon in zip(DAEMONS, daemons, strict=True):
            address = daemon.decision_http
            print(f"  daemon {number}, http://{address}: {_ask(address)}")
        print(f"\nKafka's own tool creates an ACL:\n\n  kafka-acls {ADDED}\n", flush=True)
        done = cluster.run(Program.ACLS, *ADDED.split())
        if done.exit_code:
            raise RigError(f"kafka-acls: {done.stdout}{done.stderr}")
        for number, daemon in zip(DAEMONS, daemons, strict=True):
            address = daemon.decision_http
            print(f"  daemon {number}, http://{address}: {_ask_until_allowed(address)}")
        if not once:
            print(_describe_trials(cluster, daemons), flush=True)
            while True:  # signal.pause() would miss a signal that arrives just before it
                time.sleep(1)


def _describe_trials(cluster: Cluster, daemons: Sequence[DaemonProcess]) -> str:
    """Return what a user can try while everything runs."""
    admin = cluster.client_config(ADMIN)
    servers = f"--bootstrap-server {cluster.bootstrap_servers} --command-config {admin}"
    consoles = "\n".join(f"  http://{daemon.admin_http}/console/" for daemon in daemons)
    question = "--principal User:alice --operation read --topic orders"
    return f"""
All of them run until Ctrl-C. Try:

The web consoles of the daemons:

{consoles}

Who may read the topic orders, and why? The broker is asked:

  .venv/bin/authorizerd who-can read --topic orders {servers}
  .venv/bin/authorizerd explain {question} {servers}

Remove the ACL, and ask a daemon again:

  .venv/bin/authorizerd acls {servers} \\
    --remove --force --allow-principal User:alice --operation Read --topic orders
  curl -s http://{daemons[0].decision_http}{PATH} \\
    -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(EVALUATION))}
"""


def _ask(address: str) -> str:
    connection = HTTPConnection(address, timeout=ALLOWED_SECONDS_MAX)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", PATH, json.dumps(EVALUATION), headers)
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


def _ask_until_allowed(address: str) -> str:
    """Ask until the answer is yes; an ACL arrives a few milliseconds after it was acknowledged."""
    give_up = time.monotonic() + ALLOWED_SECONDS_MAX
    while True:
        answer = _ask(address)
        decided: dict[str, Any] = json.loads(answer)
        if decided["decision"]:
            return answer
        if time.monotonic() > give_up:
            raise RigError(f"{address} did not allow in {ALLOWED_SECONDS_MAX:g} s: {answer}")
        time.sleep(0.01)


def _shown(value: str) -> str:
    """Return a value without its password."""
    before, found, _ = value.partition('password="')
    return f'{before}{found}…";' if found else value


def _interrupt(*_: object) -> NoReturn:
    """End everything. A second signal would leave Kafka processes running."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    for each in SIGNALS:
        signal.signal(each, _interrupt)
    sys.exit(main(sys.argv[1:]))
