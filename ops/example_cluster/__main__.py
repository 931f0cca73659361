"""``make run-cluster``: follow a real Kafka cluster with two daemons, and show an ACL arrive.

Three controllers, a broker and the daemons run on 127.0.0.1, below ``.run/example_cluster``. All
end with this program.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from ops.bench.daemon_process import ready_daemon
from ops.bench.processes import ProcessError
from ops.kafka_rig.cluster import Cluster, running_cluster
from ops.kafka_rig.followers import quorum_source
from ops.kafka_rig.rig import VERSION, Absent, Program, RigError, prepare

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
ALLOWED_SECONDS_MAX: Final = 10.0


def main() -> int:
    """Run the example and return the exit code."""
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
    try:
        print("Starting three controllers and a broker.", flush=True)
        with running_cluster(rig, FOLDER.absolute() / "kafka") as cluster:
            _follow(cluster)
    except (RigError, ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    print("\nKafka and the daemons have ended.")
    return 0


def _follow(cluster: Cluster) -> None:
    source = quorum_source(cluster)
    print("\nTwo daemons follow the controllers. These lines of their configuration say how:\n")
    print("".join(f"  {key}={_shown(value)}\n" for key, value in source.items()), flush=True)
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(ready_daemon(folder, folder / "copy", source)).decision_http
            for folder in (FOLDER / f"daemon-{number}" for number in DAEMONS)
        ]
        print("May alice read the topic orders?\n")
        for number, address in zip(DAEMONS, daemons, strict=True):
            print(f"  daemon {number}, http://{address}: {_ask(address)}")
        print(f"\nKafka's own tool creates an ACL:\n\n  kafka-acls {ADDED}\n", flush=True)
        done = cluster.run(Program.ACLS, *ADDED.split())
        if done.exit_code:
            raise RigError(f"kafka-acls: {done.stdout}{done.stderr}")
        for number, address in zip(DAEMONS, daemons, strict=True):
            print(f"  daemon {number}, http://{address}: {_ask_until_allowed(address)}")


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


if __name__ == "__main__":
    # Without a handler, SIGTERM would end this process and leave the others running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.exit(main())
