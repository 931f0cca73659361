"""Some stories in each test run; ``python -m tests.model`` runs any number."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.completion import Completion
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.record_applier import RecordApplier
from tests.model.drawing import draw_story
from tests.model.stories import StoryRun, run_stories, shortest
from tests.model.story import text_of
from tests.support.sizes import IS_WHOLE, size

STORIES = size(10, 200)
BLOCK = STORIES // 2
SEED = 1


@pytest.mark.parametrize("seed", range(SEED, SEED + STORIES, BLOCK))
def test_every_invariant_holds_in_every_story(seed: int) -> None:
    """The stories of each block of 100 contain every kind of event."""
    counts: Counter[str] = Counter()
    broken = run_stories(seed, BLOCK, counts)
    if broken is not None:
        story, error = shortest(broken)
        pytest.fail(f"seed {broken[0].seed}: {error}\n{text_of(story)}")
    if not IS_WHOLE:
        return
    for event in (
        "Create", "Delete", "SetTimeout", "Ask", "Describe", "Reload", "not served yet",
        "callers cancelled", "timed out", "refused at once", "updates accepted before loading",
        "updates acknowledged", "updates refused later", "updates in doubt", "checkpoints",
        "writes of several batches", "writes in doubt: none", "crashes", "ended by a fault",
        "ended well", "EIO on append", "EIO on sync", "EIO on reading",
        "decisions over decision_http", "decisions over decision_stream",
        "updates answered over Kafka", "updates in doubt over Kafka", "Describe over Kafka",
        "not served yet over Kafka", "not authorized over Kafka", "connections cut",
        "connections lost", "visitors that gave up", "waits for a partition",
        "cluster: append", "cluster: overtake", "cluster: elect", "cluster: spoil",
        "cluster: snapshot", "cluster: isolated leader", "cluster: stop the broker",
        "cluster: hold the broker", "cluster: isolate the broker", "cluster: spoil the broker",
        "listings applied", "listings confirmed", "changes forwarded", "updates forwarded",
        "not ready over decision_stream", "snapshots of workers checked", "workers replaced",
        "worker: kill", "worker: stop",
    ):  # fmt: skip
        assert counts[event], event


def test_seed_repeats_its_story() -> None:
    """All calls and counts are the same, so a failing story can be debugged."""
    for seed in range(size(2, 5)):
        first, second = StoryRun(draw_story(seed)), StoryRun(draw_story(seed))
        first.run()
        second.run()
        assert first.disk.calls == second.disk.calls
        assert first.counts == second.counts
        assert first.invariants.counts == second.invariants.counts


async def _open_at_once(gate: ListenerGate, endpoint: str, completion: Completion[None]) -> None:
    gate._open.publish(gate._open.newest | {endpoint})


async def _skip(
    applier: RecordApplier, snapshot: AclSnapshot, batch: ChangeBatch, replaced: list[AclSnapshot]
) -> AclSnapshot:
    await trio.lowlevel.checkpoint()
    return snapshot


async def _forget(purgatory: Purgatory, completions: Sequence[Completion[Any]]) -> None:
    purgatory.requests_waiting += 1
    for completion in completions:
        await completion.wait_until_done()
    purgatory.requests_waiting -= 1


@pytest.mark.parametrize(
    ("owner", "name", "fault", "broken"),
    [
        (ListenerGate, "_open_when_started", _open_at_once, "before the ACLs are loaded"),
        (RecordApplier, "_apply", _skip, "not a complete batch|other ACLs are visible"),
        (Purgatory, "wait", _forget, "purgatory|waits too long"),
    ],
)
def test_bug_is_found_and_its_story_shortened(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: object, broken: str
) -> None:
    monkeypatch.setattr(owner, name, fault)
    found = run_stories(SEED, 200, Counter())
    assert found is not None
    story, error = shortest(found)
    with pytest.raises(Exception, match=broken):
        raise error
    assert len(text_of(story)) < len(text_of(found[0]))


def test_command_prints_its_counts() -> None:
    """The counts depend on the seeds alone, so a seed that fails elsewhere fails here too."""
    command = [sys.executable, "-m", "tests.model", "--stories", "3", "--seed", "18"]
    printed = []
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.startswith("seeds 18 to 20: every invariant held")
        printed.append(done.stdout.splitlines()[1:])
    assert printed[0] == printed[1]
    assert any("updates acknowledged" in line for line in printed[0])
