"""Run a broker, or one of Kafka's tools, by hand.

    python -m tests.kafka_rig run [LOG_DIR]
    python -m tests.kafka_rig kafka-acls --bootstrap-server HOST:PORT --list

A release as the first argument, such as 4.4.0, runs that one. ``run`` ends with Ctrl-C or SIGTERM.
It creates and formats a missing log directory.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from tests.kafka_rig.broker import format_storage, running_broker
from tests.kafka_rig.rig import DIRECTORY, VERSION, Absent, Output, Program, Rig, RigError, prepare


def main(arguments: list[str]) -> int:
    """Run a broker, or one of the tools, and return the exit code."""
    version = VERSION
    if arguments and arguments[0][:1].isdigit():
        version, *arguments = arguments
    what, *rest = arguments or [""]
    if what not in ("run", *Program):
        print(__doc__, file=sys.stderr)
        return 2
    rig = prepare(version=version)
    if isinstance(rig, Absent):
        print(f"no Kafka: {rig.reason}", file=sys.stderr)
        return 1
    try:
        if what == "run":
            return _run(rig, Path(rest[0]) if rest else DIRECTORY / "log")
        return _show(rig.run(Program(what), *rest))
    except RigError as error:
        print(error, file=sys.stderr)
        return 1


def _show(output: Output) -> int:
    sys.stdout.write(output.stdout)
    sys.stderr.write(output.stderr)
    return output.exit_code


def _run(rig: Rig, log_dir: Path) -> int:
    """Run a broker until a signal ends it."""
    if not log_dir.exists():
        formatted = format_storage(rig, DIRECTORY, log_dir.absolute())
        if formatted.exit_code:
            return _show(formatted)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with running_broker(rig, DIRECTORY.absolute(), log_dir.absolute()) as broker:
            print(f"PLAINTEXT {broker.plaintext}, SASL_PLAINTEXT {broker.sasl_plaintext}")
            for user in broker.settings.users:
                print(f"as {user}: --command-config {broker.client_config(user)}", flush=True)
            while True:  # signal.pause() would miss a signal that arrives just before it
                time.sleep(1)
    except KeyboardInterrupt:
        return 0


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
