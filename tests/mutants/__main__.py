"""``python -m tests.mutants [NAME…]``: try each mutant, and check that its test fails."""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.mutants.catalogue import MUTANTS, document
from tests.mutants.mutant import Mutant
from tests.mutants.trial import Copy, Verdict

_ROOT: Final = Path(__file__).parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each mutant and the counts; return 1 if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a mutant's name")
    parser.add_argument("--document", action="store_true", help="print the list of all mutants")
    asked = parser.parse_args(arguments)
    if asked.document:
        sys.stdout.write(document())
        return 0
    mutants = _select(asked.names)
    if not mutants:
        parser.error("no mutant has this in its name")
    with TemporaryDirectory(prefix="mutants-") as folder:
        return _try_all(mutants, Copy(_ROOT, Path(folder)))


def _select(parts: list[str]) -> dict[str, Mutant]:
    selected = (name for name in MUTANTS if not parts or any(part in name for part in parts))
    return {name: MUTANTS[name] for name in selected}


def _try_all(mutants: Mapping[str, Mutant], copy: Copy) -> int:
    _print("running all tests without a mutant:")
    if not copy.passes([mutant.found_by for mutant in mutants.values()]):
        _print(f"{copy.output}\nthe tests fail without a mutant")
        return 1
    _print(copy.output.rstrip().rpartition("\n")[2])
    verdicts = [_try(*each, copy) for each in mutants.items()]
    counts = Counter(verdict.outcome.value for verdict in verdicts)
    _print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 0 if all(verdict.is_found for verdict in verdicts) else 1


def _try(name: str, mutant: Mutant, copy: Copy) -> Verdict:
    verdict = copy.try_mutant(mutant)
    _print(f"{verdict.seconds:6.1f} s  {verdict.outcome.value}  {name}: {mutant.found_by}")
    if not verdict.is_found:
        _print(copy.output)
    return verdict


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
