"""Run many stories, one per seed, and shorten a story that breaks an invariant."""

from __future__ import annotations

import gc
import os
from collections import Counter
from typing import TypeAlias

from tests.model.drawing import draw_story
from tests.model.invariants import check
from tests.model.lives import StoryRun
from tests.model.story import Story, smaller

Broken: TypeAlias = tuple[Story, Exception]
"""A story that breaks an invariant, and its error."""


def run_stories(seed: int, stories: int, counts: Counter[str]) -> Broken | None:
    """Run stories from ``seed`` on; return the first that breaks an invariant.

    Raises:
        BrokenInvariantError: the stories have left descriptors open.
    """
    descriptors = _count_descriptors()
    for number in range(seed, seed + stories):
        story = draw_story(number)
        run = StoryRun(story)
        error = fault_of(story, run)
        if error is not None:
            return story, error
        counts["stories"] += 1
        counts.update(run.counts + run.invariants.counts + run.disk.faults)
    check(_count_descriptors() <= descriptors, "descriptors are left open")
    return None


def _count_descriptors() -> int:
    gc.collect()  # servers that were never opened are in cycles, and so are their descriptors
    return len(os.listdir("/proc/self/fd"))


def fault_of(story: Story, run: StoryRun | None = None) -> Exception | None:
    """Run a story; return the broken invariant or None."""
    try:
        (run or StoryRun(story)).run()
    except Exception as error:  # noqa: BLE001 - any error is a broken invariant
        return error
    return None


def shortest(broken: Broken) -> Broken:
    """Return the shortest story found that still breaks an invariant.

    If the story holds when it is repeated, something in it is left to chance: return it as it is.
    """
    is_shorter = fault_of(broken[0]) is not None
    while is_shorter:
        is_shorter = False
        for less in smaller(broken[0]):
            error = fault_of(less)
            if error is not None:
                broken, is_shorter = (less, error), True
                break
    return broken
