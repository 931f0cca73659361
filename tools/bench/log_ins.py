"""Log-ins with SCRAM, each on a new connection, and the event loop's longest step during them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from authorizerd.protocol.records.scram import ScramMechanism
from tools.bench.event_loop import measure_stretches_of
from tools.bench.figures import Row
from tools.bench.loads import QUICK, Extent, Process, Target, compare
from tools.bench.protocols import scram_opening
from tools.bench.run import Run
from tools.bench.sender import Plan
from tools.bench.sets import HOST
from tools.daemon_process import DaemonProcess, format_log, ready_daemon

CONNECTIONS: Final = 16
RATE: Final = 400.0
_USER: Final = "bench"
_LISTENER: Final = "SASL_PLAINTEXT"
_SETTINGS: Final[Mapping[str, str]] = {
    "listeners": f"{_LISTENER}://{HOST}:0",
    "sasl.enabled.mechanisms": ",".join(mechanism.text for mechanism in ScramMechanism),
}
_FULL: Final = Extent(rounds=3, seconds=2.0, warm_up=1.0, timed=6.0)


def measure_log_ins(run: Run) -> Iterator[Row]:
    """Measure each mechanism."""
    place, password = run.new_place("log-ins"), secrets.token_urlsafe()
    log_dir, extent = place / "log", run.pick(_FULL, QUICK)
    users = [f"{each.text}=[name={_USER},password={password}]" for each in ScramMechanism]
    format_log(
        place, log_dir, _SETTINGS, *(word for user in users for word in ("--add-scram", user))
    )
    for mechanism in run.pick(tuple(ScramMechanism), (ScramMechanism.SCRAM_SHA_512,)):
        target = partial(_target, mechanism=mechanism, password=password)
        what = f"{mechanism.text}, {CONNECTIONS} at a time"
        with ready_daemon(place, log_dir, _SETTINGS) as daemon:
            yield from compare(what, extent, {"": target(daemon)}, "log-ins")

        def work(daemon: DaemonProcess, target: partial[Target] = target) -> None:
            target(daemon).count(extent.seconds)

        name = f"{mechanism.text} log-ins"
        yield from measure_stretches_of(name, log_dir, place, _SETTINGS, work, rounds=extent.rounds)


def _target(daemon: DaemonProcess, *, mechanism: ScramMechanism, password: str) -> Target:
    plan = Plan(
        address=daemon.listeners[_LISTENER], requests=[scram_opening(mechanism)], seconds=0,
        protocol=f"scram:{mechanism.name}:{_USER}:{password}", connections=CONNECTIONS,
        is_fresh=True,
    )  # fmt: skip
    return Target(process=Process(daemon.process_id), plan=plan, rate=RATE)
