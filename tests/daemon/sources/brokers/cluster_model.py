"""A model of a cluster whose brokers lag, restart, pause and throttle, and a driver of the machine.

Everything happens in virtual time, and follows from a seed.
"""

from dataclasses import dataclass, field
from random import Random

from authorizerd.daemon.sources.brokers import messages
from authorizerd.daemon.sources.brokers.machine import Machine

CLUSTER_ID = "cluster"
POLL = 5.0
PAUSE_MAX = 60.0
TIMEOUT = 5.0
APPLY_SECONDS_MAX = 0.9
"""Below SETTLE_SECONDS: how long a broker takes to apply what it has fetched."""
LAG_MAX_WITHOUT_QUORUM = 0.8 * POLL
FETCH_SECONDS = 0.3


@dataclass
class BrokerModel:
    """A broker. Its log ends at ``log_end``; ``applied`` is what its answers show."""

    broker_id: int
    log_end: int = 0
    applied: int = 0
    is_up: bool = True
    is_paused: bool = False
    lags_until: float = 0.0
    process: int = 0
    """Counts restarts, which break its connections."""
    fetched: list[tuple[float, int]] = field(default_factory=list)


@dataclass
class Acked:
    """A change made through the daemon: visible in versions from ``made`` up to ``undone``."""

    made: int
    at: float
    undone: int | None = None

    def is_shown(self, version: int) -> bool:
        return self.made <= version and (self.undone is None or version < self.undone)


class ClusterModel:
    """The log is a list of states: ``states[n]`` is what the first ``n`` records give.

    A state is a number; some records do not change it, and some go back to an earlier one.
    """

    def __init__(self, random: Random, *, brokers: int, has_quorum: bool) -> None:
        self.random = random
        self.now = 0.0
        self.states = [0]
        self.has_quorum = has_quorum
        self.has_leader = True
        self.brokers = {number: BrokerModel(number) for number in range(1, brokers + 1)}
        self.is_calm = False

    @property
    def high_watermark(self) -> int:
        return len(self.states) - 1

    @property
    def targets(self) -> tuple[messages.Target, ...]:
        return tuple(messages.Target("broker", number, number) for number in self.brokers)

    def commit(self) -> int:
        """Add a record that changes the state; return the number of records."""
        is_repeated = self.random.random() < 0.2
        self.states.append(self.random.choice(self.states) if is_repeated else len(self.states))
        return self.high_watermark

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            step = min(0.1, end - self.now)
            self.now += step
            self._step(step)

    def _step(self, seconds: float) -> None:
        if self.has_leader and self.random.random() < 2 * seconds:
            self.states.append(self.states[-1])  # a record without effect, as every 500 ms
        if not self.is_calm:
            self._disturb(seconds)
        for broker in self.brokers.values():
            self._fetch(broker, seconds)

    def _disturb(self, seconds: float) -> None:
        if self.random.random() < 0.1 * seconds:
            self.commit()
        if self.has_quorum and self.random.random() < 0.02 * seconds:
            self.has_leader = not self.has_leader
        broker = self.random.choice(list(self.brokers.values()))
        chance = self.random.random() / seconds
        if chance < 0.03:
            most = 20.0 if self.has_quorum else LAG_MAX_WITHOUT_QUORUM
            broker.lags_until = self.now + self.random.uniform(0, most)
        elif chance < 0.05:
            broker.is_paused = not broker.is_paused
        elif chance < 0.08:
            self._restart(broker)

    def _restart(self, broker: BrokerModel) -> None:
        broker.is_up = not broker.is_up
        broker.process += 1

    def _fetch(self, broker: BrokerModel, seconds: float) -> None:
        """Fetch from the leader, and apply what was fetched a while ago."""
        if not broker.is_up or broker.is_paused:
            return
        is_late = self.now < broker.lags_until
        if self.has_leader and not is_late and self.random.random() < seconds / FETCH_SECONDS:
            broker.log_end = self.high_watermark
            broker.fetched.append((self.now, broker.log_end))
        if not self.has_quorum and not is_late:
            broker.log_end = self.high_watermark
            broker.applied = broker.log_end
        while broker.fetched and (
            self.now - broker.fetched[0][0] > APPLY_SECONDS_MAX - 0.2 or self.random.random() < 0.3
        ):
            broker.applied = max(broker.applied, broker.fetched.pop(0)[1])

    def calm_down(self) -> None:
        """End all disturbances."""
        self.is_calm = self.has_leader = True
        for broker in self.brokers.values():
            broker.is_up, broker.is_paused, broker.lags_until = True, False, 0.0


class Driver:
    """Carry out the machine's actions on the model, and check what is accepted."""

    def __init__(self, model: ClusterModel, *, high_watermark: int | None = None) -> None:
        self.model = model
        self.random = model.random
        self.machine = Machine(
            [messages.Target("bootstrap", 1), messages.Target("bootstrap", 2)],
            poll_seconds=POLL,
            pause_seconds_max=PAUSE_MAX,
            cluster_id=None,
            high_watermark=high_watermark,
            random=Random(self.random.random()),
        )
        self.connection: tuple[BrokerModel, int] | None = None
        self.listed: tuple[int, float] | None = None
        self.accepted = -1
        """The version in force: the number of records."""
        self.state: int | None = None
        self.acked: dict[int, Acked] = {}
        self.answered: set[int] = set()
        self.accepted_at = 0.0
        self.woken = False
        self._answer: messages.Event | None = None

    def run(self, seconds: float, *, chance_of_change: float = 0.0) -> None:
        end = self.model.now + seconds
        while self.model.now < end:
            action = self.machine.advance(self._answer, self.model.now)
            self._answer = self._carry_out(action, chance_of_change)

    def change(self) -> int:
        """Make a change through the daemon, which the cluster has acknowledged; return its key."""
        key = len(self.acked)
        made = self.model.commit()
        self.acked[key] = Acked(made, self.model.now)
        if self.random.random() < 0.05:
            self.acked[key].undone = self.model.commit()
        self.machine.acknowledge(key, self.model.now)
        self.woken = True
        return key

    def _carry_out(self, action: messages.Action, chance_of_change: float) -> messages.Event:
        match action:
            case messages.Wait(seconds, ends_early):
                return self._wait(seconds, ends_early, chance_of_change)
            case messages.Open(target):
                return self._open(target)
            case messages.Accept():
                return self._accept(action)
            case messages.AskListing():
                return self._exchange() or self._list()
            case messages.AskQuorum():
                return self._exchange() or self._describe_quorum()
            case messages.Stop(reason):
                raise AssertionError(reason)

    def _wait(self, seconds: float, ends_early: bool, chance_of_change: float) -> messages.Event:
        assert 0 <= seconds <= 2 * 1.1 * PAUSE_MAX
        end = self.model.now + seconds
        while self.model.now < end:
            if self.woken and ends_early:
                break
            self.model.pass_time(min(0.1, end - self.model.now))
            if self.random.random() < chance_of_change * 0.1:
                self.change()
        if ends_early and self.woken:
            self.woken = False
            return messages.Woken()
        return messages.Done()

    def _open(self, target: messages.Target) -> messages.Event:
        self.connection = None
        self.model.pass_time(self.random.uniform(0.001, 0.1))
        number = target.broker_id or self.random.choice(list(self.model.brokers))
        broker = self.model.brokers[number]
        if not broker.is_up:
            return messages.Broken("refused")
        if broker.is_paused:
            self.model.pass_time(TIMEOUT)
            return messages.Broken("no answer")
        if target.broker_id is not None:
            self.connection = (broker, broker.process)
        return messages.Opened(CLUSTER_ID, self.model.targets)

    def _exchange(self) -> messages.Broken | None:
        """Let an exchange take its time; return an error if the connection did not survive it."""
        assert self.connection is not None, "the machine uses no broken connection"
        broker, process = self.connection
        self.model.pass_time(self.random.uniform(0.001, 0.2))
        waited = 0.0
        while broker.is_paused and waited < TIMEOUT and broker.process == process:
            self.model.pass_time(0.1)
            waited += 0.1
        is_cut = not self.model.is_calm and self.random.random() < 0.02
        if broker.process != process or broker.is_paused or is_cut or not broker.is_up:
            self.connection = self.listed = None
            return messages.Broken("cut")
        return None

    def _list(self) -> messages.Event:
        assert self.connection is not None
        broker, _ = self.connection
        if not self.model.is_calm and self.random.random() < 0.02:
            return messages.Refused("CLUSTER_AUTHORIZATION_FAILED")
        version = broker.applied
        self.listed = (version, self.model.now)
        shown = {key for key, each in self.acked.items() if each.is_shown(version)}
        is_free = self.model.is_calm or self.random.random() < 0.95
        throttle = 0.0 if is_free else self.random.uniform(0, 20)
        is_equal = self.model.states[version] == self.state
        return messages.Listed(is_equal, frozenset(shown), self.random.uniform(0, 0.2), throttle)

    def _describe_quorum(self) -> messages.Event:
        model = self.model
        if not model.has_quorum:
            return messages.Unserved("no such API")
        if not model.has_leader:
            return self.random.choice((messages.Refused("REQUEST_TIMED_OUT"), messages.Quorum(-1)))
        ends = {each.broker_id: each.log_end for each in model.brokers.values()}
        return messages.Quorum(model.high_watermark, ends)

    def _accept(self, action: messages.Accept) -> messages.Event:
        assert self.listed is not None, "nothing was listed on this connection"
        version, _ = self.listed
        self.listed = None
        state = self.model.states[version]
        if state != self.state:
            assert version >= self.accepted, f"{self.accepted} is followed by {version}"
        self.accepted = max(version, self.accepted)
        self.state = state
        if action.is_current:
            self.accepted_at = self.model.now
        for key in action.shown:
            each = self.acked[key]
            assert version >= each.made, "a barrier is answered before the change is in force"
            assert key not in self.answered
            self.answered.add(key)
        return messages.Done()
