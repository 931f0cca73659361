"""The faults of a real cluster that the daemon follows: of its controllers, and of its brokers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, TypeAlias

from tests.chaos.faults import Fault, Stage
from tests.chaos.origins import BEHIND_SECONDS_MAX
from tests.kafka_rig.member import Member

Choose: TypeAlias = Callable[[Stage], Sequence[Member]]
"""Return some of the cluster's nodes."""


def _leader(stage: Stage) -> Sequence[Member]:
    return [stage.cluster.members[stage.cluster.find_leader()]]


def _another_controller(stage: Stage) -> Sequence[Member]:
    [leader] = _leader(stage)
    return [stage.chance.choice([each for each in stage.cluster.controllers if each is not leader])]


def _controllers(stage: Stage) -> Sequence[Member]:
    return stage.cluster.controllers


def _broker(stage: Stage) -> Sequence[Member]:
    return [stage.chance.choice(stage.cluster.brokers)]


def _brokers(stage: Stage) -> Sequence[Member]:
    return stage.cluster.brokers


def _killing(choose: Choose) -> Callable[[Stage], None]:
    """Kill nodes, and start them again. They are ready when this ends."""

    def run(stage: Stage) -> None:
        members = choose(stage)
        for each in members:
            stage.cluster.kill(each.node_id)
        stage.wait(0, 5)
        for each in members:
            stage.cluster.start(each.node_id, waits=False)
        for each in members:
            each.process.wait_until_ready()

    return run


def _pausing(choose: Choose, seconds_min: float, seconds_max: float) -> Callable[[Stage], None]:
    """Stop nodes for a while. A leader still thinks that it is the leader when it goes on."""

    def run(stage: Stage) -> None:
        with _paused(stage, choose(stage)):
            stage.wait(seconds_min, seconds_max)

    return run


def _cutting_off(choose: Choose) -> Callable[[Stage], None]:
    """Nobody reaches these nodes: neither the daemon, nor the others."""

    def run(stage: Stage) -> None:
        with stage.network.cut_off([_port(stage, each) for each in choose(stage)]):
            stage.wait(1, 8)

    return run


def _leave_a_lagging_broker(stage: Stage) -> None:
    """Stop a broker, and let it go on when the daemon no longer reaches the others."""
    [lagging] = _broker(stage)
    others = [_port(stage, each) for each in stage.cluster.brokers if each is not lagging]
    with ExitStack() as stack:
        with _paused(stage, [lagging]):
            stage.wait(1, 6)
            stack.enter_context(stage.network.cut_off(others))
            stage.wait(0, 2)
        stage.wait(1, 6)


CLUSTER_FAULTS: Final[Sequence[Fault]] = (
    Fault("kill -9 of the leader", _killing(_leader)),
    Fault("kill -9 of another controller", _killing(_another_controller)),
    Fault("SIGSTOP of the leader", _pausing(_leader, 0.5, 8)),
    Fault("SIGSTOP of all controllers", _pausing(_controllers, 0.5, 6)),
    Fault("partition of the leader", _cutting_off(_leader), needs="network"),
    Fault("partition from all controllers", _cutting_off(_controllers), needs="network"),
)
"""For a daemon that follows a cluster, besides the others."""

_STALE: Final = BEHIND_SECONDS_MAX + 3
"""A daemon that still decides after these seconds shows that it lacks a change in the cluster."""
BROKER_FAULTS: Final[Sequence[Fault]] = (
    Fault("kill -9 of a broker", _killing(_broker)),
    Fault("kill -9 of all brokers", _killing(_brokers)),
    Fault("SIGSTOP of a broker", _pausing(_broker, 0.5, 8)),
    Fault("SIGSTOP of all brokers", _pausing(_brokers, 0.5, 6)),
    Fault("SIGSTOP of all brokers, until stale", _pausing(_brokers, _STALE, _STALE + 3)),
    Fault("partition of a broker", _cutting_off(_broker), needs="network"),
    Fault("partition from all but a lagging broker", _leave_a_lagging_broker, needs="network"),
)
"""For a daemon that follows the brokers, besides all others."""


def _port(stage: Stage, member: Member) -> int:
    return member.ports.controller if member.is_controller else member.ports.sasl


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
