"""``python -m tests.model --stories N --seed S``: run stories and print their counts."""

import argparse
import sys
import time
import traceback
from collections import Counter

from tests.model.stories import run_stories, shortest
from tests.model.story import text_of


def main() -> int:
    """Run the stories and print the counts; return 1 and the story if an invariant is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--stories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    started = time.monotonic()
    broken = run_stories(arguments.seed, arguments.stories, counts)
    if broken is not None:
        story, error = shortest(broken)
        traceback.print_exception(error)
        _say(
            f"\nbroken by seed {broken[0].seed}: {error}\nthe shortest story is\n{text_of(story)}",
            f"repeat: python -m tests.model --stories 1 --seed {broken[0].seed}",
        )
        return 1
    last = arguments.seed + arguments.stories - 1
    seconds = time.monotonic() - started
    _say(
        f"seeds {arguments.seed} to {last}: every invariant held, {seconds:.0f} s",
        *(f"  {count:9} {name}" for name, count in sorted(counts.items())),
    )
    return 0


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
