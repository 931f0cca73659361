"""Rounds with groups, whose directory fails: no failure changes an ACL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.cli.change import planning
from authorizerd.cli.sync.rounds import Outcome
from authorizerd.management.groups.errors import GroupsError, Kind
from authorizerd.management.groups.file import GroupsFile
from authorizerd.management.groups.membership import Membership, resolve_groups
from tests.cli.sync.stage import Stage
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess

State = Mapping[str, Collection[str]] | Kind
USERS = [f"User:u{number}" for number in range(20)]
PERMANENT = acl("User:permanent", topic="kept")
OTHER = acl("User:other", topic="other")
GIVEN = {"readers": acl("Group:readers", "READ", topic="a"), "admins": acl("Group:admins", "ALTER")}


class Directory:
    """A directory whose answers a test chooses."""

    def __init__(self) -> None:
        self.state: State = "away"

    def read(self, file: GroupsFile, names: Collection[str]) -> Membership:
        if isinstance(self.state, str):
            raise GroupsError("ldaps://directory", "it failed", self.state)
        return resolve_groups(self.state, names, file.may_be_empty)


class GroupStage(Stage):
    """A stage whose desired file names two groups, and a permanent ACL."""

    def __init__(self, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(address, folder, [])
        self.directory = Directory()
        monkeypatch.setattr(planning, "read_membership", self.directory.read)
        groups = folder / "groups.yaml"
        groups.write_text("set: s\ngroups: {}\n")
        self.want([PERMANENT, *GIVEN.values()])
        # It manages only what the file has, and what groups made.
        self.flags += ["--groups", groups, "--principal", "User:permanent"]


@pytest.fixture
def stage(
    shared_daemon: DaemonProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> GroupStage:
    return GroupStage(shared_daemon.ready["listeners"]["PLAINTEXT"], tmp_path, monkeypatch)


def expand(groups: Mapping[str, Iterable[str]]) -> set[Acl]:
    """Return the ACLs that the stage's file gives to these members, as a model."""
    names = {name: (each.operation, each.resource_name) for name, each in GIVEN.items()}
    return {PERMANENT} | {
        acl(user, names[name][0], topic=names[name][1])
        for name, users in groups.items()
        for user in users
    }


FULL = {"readers": USERS[:12], "admins": USERS[12:15]}


@pytest.mark.parametrize(("state", "reason"), [
    ("away", "away"),
    ("partial", "partial"),
    ("invalid", "invalid"),
    ({}, "invalid"),
    ({"readers": [], "admins": []}, "empty"),
    ({**FULL, "admins": []}, "empty"),
    ({**FULL, "readers": USERS[:5]}, "removals"),
    ({"readers": USERS[:6], "admins": USERS[12:13]}, "removals"),
    ({"readers": USERS[12:14], "admins": FULL["admins"]}, "removals"),
])  # fmt: skip
def test_failure_of_the_directory_changes_nothing_and_ends_with_it(
    stage: GroupStage, state: State, reason: str
) -> None:
    stage.directory.state = FULL
    rounds = stage.new_rounds()
    assert rounds.run() is Outcome.IN_STEP
    assert stage.acls == expand(FULL)
    assert (rounds.status.members, rounds.status.group_acls) == (15, 15)
    before, read_at = stage.list_all(), rounds.status.directory_s
    stage.directory.state = state
    for patient in (rounds, stage.new_rounds()):  # also after a restart
        for _ in range(2):
            patient.run()
            assert set(patient.status.reasons) == {reason}
            assert stage.list_all() == before
    if reason != "removals":
        assert rounds.status.directory_s == read_at
    changed = {**FULL, "admins": USERS[12:14]}
    stage.directory.state = changed
    assert rounds.run() is Outcome.IN_STEP
    assert not rounds.status.reasons
    assert stage.acls == expand(changed)


def test_halved_directory_is_accepted_by_a_person(stage: GroupStage) -> None:
    stage.directory.state = FULL
    stage.once()
    half = {**FULL, "readers": USERS[:5]}
    stage.directory.state = half
    (line,) = stage.once(code=3)
    reason = line["reasons"]["removals"]
    assert "7 of 12 ACLs that group readers has made" in reason
    assert "7 of 15" not in reason
    stage.once("--accept-removals", reason.rpartition(" ")[2])
    assert stage.acls == expand(half)


def test_acls_that_groups_did_not_make_stay(stage: GroupStage) -> None:
    stage.directory.state = FULL
    stage.set_acls([OTHER, acl("User:u0", "READ", topic="a")])
    stage.once()
    stage.directory.state = {**FULL, "readers": USERS[1:11]}
    (line,) = stage.once()
    (text,) = line["deleted_acls"]
    assert text.endswith("] (readers)")
    assert stage.acls == expand({**FULL, "readers": USERS[:11]}) | {OTHER}


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


MEMBERS = st.lists(st.sampled_from(USERS), max_size=20, unique=True)
STATES: st.SearchStrategy[State] = st.one_of(
    st.sampled_from(["away", "partial", "invalid"]),
    st.fixed_dictionaries({"readers": MEMBERS, "admins": MEMBERS}),
)


def is_refused(now: Mapping[str, Collection[str]], state: State) -> bool:
    """Say what the default limits refuse, by the members alone."""
    if isinstance(state, str) or not all(state.values()):
        return True
    numbers = [(set(now.get(name, ())), set(state[name])) for name in GIVEN]
    lost = [(len(before), len(before - after)) for before, after in numbers]
    lost.append((sum(before for before, _ in lost), sum(removed for _, removed in lost)))
    return any(removed > 5 and removed > before / 2 for before, removed in lost)


@settings(deadline=None)
@given(states=st.lists(STATES, min_size=3, max_size=8), restarts=st.booleans())
def test_acls_are_always_those_of_the_last_accepted_state(
    shared_daemon: DaemonProcess,
    tmp_path_factory: pytest.TempPathFactory,
    patched: pytest.MonkeyPatch,
    states: list[State],
    restarts: bool,
) -> None:
    address = shared_daemon.ready["listeners"]["PLAINTEXT"]
    stage = GroupStage(address, tmp_path_factory.mktemp("states"), patched)
    accepted: Mapping[str, Collection[str]] = {}
    rounds = stage.new_rounds()
    for state in chain([FULL], states):
        stage.directory.state = state
        if restarts:
            rounds = stage.new_rounds()
        rounds.run()
        refused = is_refused(accepted, state)
        assert bool(rounds.status.reasons) is refused
        if not refused:
            assert not isinstance(state, str)
            accepted = state
        assert stage.acls == expand(accepted)
