"""Many stories, one a seed; and of one that breaks a law, the shortest that does so too."""

from __future__ import annotations

from collections import Counter

from tests.model.drawing import draw_story
from tests.model.lives import Telling
from tests.model.story import Story, smaller


def tell_stories(seed: int, stories: int, counts: Counter[str]) -> Story | None:
    """Tell so many stories from ``seed`` on; return the first that breaks a law."""
    for number in range(seed, seed + stories):
        story = draw_story(number)
        telling = Telling(story)
        if fault_of(story, telling) is not None:
            return story
        counts["stories"] += 1
        counts.update(telling.counts + telling.laws.counts + telling.disk.faults)
    return None


def fault_of(story: Story, telling: Telling | None = None) -> Exception | None:
    """Tell a story; return what is broken by it."""
    try:
        (telling or Telling(story)).tell()
    except Exception as error:  # noqa: BLE001 - any error is a law that does not hold
        return error
    return None


def shortest(story: Story) -> tuple[Story, Exception]:
    """Return the shortest story found that still breaks a law, and how it does."""
    broken = fault_of(story)
    assert broken is not None, "a story is told the same way again"
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for less in smaller(story):
            error = fault_of(less)
            if error is not None:
                story, broken, is_shorter = less, error, True
                break
    return story, broken
