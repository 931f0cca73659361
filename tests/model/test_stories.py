"""Some stories at each run of the tests; ``python -m tests.model`` tells any number."""

from __future__ import annotations

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
from tests.model.lives import Telling
from tests.model.stories import shortest, tell_stories
from tests.model.story import text_of

STORIES = 100
SEED = 1


def test_every_law_holds_in_every_story() -> None:
    """And the stories tell of all that may happen."""
    counts: Counter[str] = Counter()
    broken = tell_stories(SEED, STORIES, counts)
    if broken is not None:
        story, error = shortest(broken)
        pytest.fail(f"seed {story.seed}: {error}\n{text_of(story)}")
    for event in (
        "Create", "Delete", "SetTimeout", "Ask", "Describe", "Reload", "not served yet",
        "callers cancelled", "timed out", "refused at once", "updates accepted before loading",
        "updates acknowledged", "updates refused later", "updates in doubt", "checkpoints",
        "writes of several batches", "writes in doubt: gone", "crashes", "ended by a fault",
        "ended well", "EIO on append", "EIO on sync", "EIO on reading",
    ):  # fmt: skip
        assert counts[event], event


def test_a_seed_tells_the_same_story_again() -> None:
    """Call by call, with all that its tasks did: a story that breaks a law can be looked at."""
    for seed in range(5):
        first, second = Telling(draw_story(seed)), Telling(draw_story(seed))
        first.tell()
        second.tell()
        assert first.disk.calls == second.disk.calls
        assert first.counts == second.counts
        assert first.laws.counts == second.laws.counts


async def _open_at_once(gate: ListenerGate, endpoint: str, completion: Completion[None]) -> None:
    gate._open.publish(gate._open.newest | {endpoint})


async def _skip(
    applier: RecordApplier,
    snapshot: AclSnapshot,
    batch: ChangeBatch,
    replaced: list[AclSnapshot],
) -> AclSnapshot:
    await trio.lowlevel.checkpoint()
    return snapshot


async def _forget(purgatory: Purgatory, completions: Sequence[Completion[Any]]) -> None:
    purgatory.requests_waiting += 1
    for completion in completions:
        await completion.wait_until_done()
    purgatory.requests_waiting -= 1


@pytest.mark.parametrize(
    ("owner", "name", "fault", "law"),
    [
        (ListenerGate, "_open_when_started", _open_at_once, "an endpoint opens before"),
        (RecordApplier, "_apply", _skip, "another state"),
        (Purgatory, "wait", _forget, "purgatory|longer than it may"),
    ],
)
def test_a_fault_is_found_and_its_story_cut_down(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: object, law: str
) -> None:
    """A law is broken by one of the stories, and still is by a shorter one."""
    monkeypatch.setattr(owner, name, fault)
    broken = tell_stories(SEED, STORIES, Counter())
    assert broken is not None
    story, error = shortest(broken)
    with pytest.raises(Exception, match=law):
        raise error
    assert len(text_of(story)) < len(text_of(broken))


def test_the_command_prints_what_happened() -> None:
    """By what was asked, what came of it, and the faults of the disk; 0 where every law held."""
    command = [sys.executable, "-m", "tests.model", "--stories", "3", "--seed", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("seeds 5 to 7: every law held")
    assert "updates acknowledged" in done.stdout
