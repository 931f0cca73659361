"""The faults of a real cluster that the daemon follows: of its controllers, and of its brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from tests.chaos.faults import Fault, Stage
from tests.chaos.origins import BEHIND_SECONDS_MAX
from tests.kafka_rig.member import Member


def _kill_the_leader(stage: Stage) -> None:
    """The others elect a new leader. The old one has started again when this ends."""
    _kill(stage, [_leader(stage)])


def _kill_another_controller(stage: Stage) -> None:
    leader = _leader(stage)
    others = [each for each in stage.cluster.controllers if each is not leader]
    _kill(stage, [stage.chance.choice(others)])


def _stop_the_leader(stage: Stage) -> None:
    """It still thinks that it is the leader when it goes on."""
    with _paused(stage, [_leader(stage)]):
        stage.wait(0.5, 8)


def _stop_all_controllers(stage: Stage) -> None:
    with _paused(stage, stage.cluster.controllers):
        stage.wait(0.5, 6)


def _cut_off_the_leader(stage: Stage) -> None:
    """Nobody reaches it: neither the daemon, nor the other controllers, who elect another."""
    with stage.network.cut_off([_leader(stage).ports.controller]):
        stage.wait(1, 8)


def _cut_off_all_controllers(stage: Stage) -> None:
    with stage.network.cut_off([each.ports.controller for each in stage.cluster.controllers]):
        stage.wait(1, 8)


def _kill_a_broker(stage: Stage) -> None:
    _kill(stage, [_some_broker(stage)])


def _kill_all_brokers(stage: Stage) -> None:
    """Decisions stop until one of them has started again."""
    _kill(stage, stage.cluster.brokers)


def _stop_a_broker(stage: Stage) -> None:
    with _paused(stage, [_some_broker(stage)]):
        stage.wait(0.5, 8)


def _stop_all_brokers(stage: Stage) -> None:
    with _paused(stage, stage.cluster.brokers):
        stage.wait(0.5, 6)


def _stop_all_brokers_until_stale(stage: Stage) -> None:
    """A daemon that goes on deciding shows that it lacks a change in the cluster."""
    with _paused(stage, stage.cluster.brokers):
        stage.wait(BEHIND_SECONDS_MAX + 3, BEHIND_SECONDS_MAX + 6)


def _cut_off_a_broker(stage: Stage) -> None:
    """Neither the daemon nor the other broker reaches it. It follows the controllers."""
    with stage.network.cut_off([_some_broker(stage).ports.sasl]):
        stage.wait(1, 8)


def _leave_a_lagging_broker(stage: Stage) -> None:
    """Stop a broker, and let it go on when the daemon no longer reaches the others."""
    lagging = _some_broker(stage)
    others = [each.ports.sasl for each in stage.cluster.brokers if each is not lagging]
    with ExitStack() as stack:
        with _paused(stage, [lagging]):
            stage.wait(1, 6)
            stack.enter_context(stage.network.cut_off(others))
            stage.wait(0, 2)
        stage.wait(1, 6)


CLUSTER_FAULTS: Final[Sequence[Fault]] = (
    Fault(name="kill -9 of the leader", run=_kill_the_leader),
    Fault(name="kill -9 of another controller", run=_kill_another_controller),
    Fault(name="SIGSTOP of the leader", run=_stop_the_leader),
    Fault(name="SIGSTOP of all controllers", run=_stop_all_controllers),
    Fault(name="partition of the leader", run=_cut_off_the_leader, needs="network"),
    Fault(name="partition from all controllers", run=_cut_off_all_controllers, needs="network"),
)
"""For a daemon that follows a cluster, besides the others."""

BROKER_FAULTS: Final[Sequence[Fault]] = (
    Fault(name="kill -9 of a broker", run=_kill_a_broker),
    Fault(name="kill -9 of all brokers", run=_kill_all_brokers),
    Fault(name="SIGSTOP of a broker", run=_stop_a_broker),
    Fault(name="SIGSTOP of all brokers", run=_stop_all_brokers),
    Fault(name="SIGSTOP of all brokers, until stale", run=_stop_all_brokers_until_stale),
    Fault(name="partition of a broker", run=_cut_off_a_broker, needs="network"),
    Fault(
        name="partition from all but a lagging broker",
        run=_leave_a_lagging_broker,
        needs="network",
    ),
)
"""For a daemon that follows the brokers, besides all others."""


def _leader(stage: Stage) -> Member:
    return stage.cluster.members[stage.cluster.find_leader()]


def _some_broker(stage: Stage) -> Member:
    return stage.chance.choice(stage.cluster.brokers)


def _kill(stage: Stage, members: Sequence[Member]) -> None:
    """Kill nodes, and start them again."""
    for each in members:
        stage.cluster.kill(each.node_id)
    stage.wait(0, 5)
    for each in members:
        stage.cluster.start(each.node_id, waits=False)
    for each in members:
        each.process.wait_until_ready()


@contextmanager
def _paused(stage: Stage, members: Sequence[Member]) -> Iterator[None]:
    """Stop nodes until the block ends."""
    for each in members:
        stage.cluster.pause(each.node_id)
    try:
        yield
    finally:
        for each in members:
            stage.cluster.resume(each.node_id)
