"""Fuzz every reader of bytes and text, and print what each one did.

python -m tests.fuzz [--inputs 10000000] [--seconds 3600] [--seed 1] [--targets opa,stream]
python -m tests.fuzz --targets opa --input .run/fuzz/opa-1a2b3c4d
"""

import argparse
import hashlib
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.fuzz.corpus import inputs_of
from tests.fuzz.engine import Failure, Result, replay, run
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS
from tests.fuzz.trace import ROOT

FOLDER: Final = ROOT / ".run" / "fuzz"
_HEAD: Final = ("target", "inputs", "seed paths", "new paths", "failures", "inputs/s")


def main() -> int:
    """Fuzz the targets, or read one input again; return 1 if anything fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", default=",".join(TARGETS), help="names with commas")
    parser.add_argument("--input", type=Path, help="read this file instead, by one target")
    arguments = parser.parse_args()
    targets = [TARGETS[name] for name in arguments.targets.split(",")]
    if arguments.input is not None:
        failures = [each for one in targets for each in replay(one, [arguments.input.read_bytes()])]
        sys.stdout.writelines(f"{each.kind}: {each.text}\n" for each in failures)
        return bool(failures)
    return _fuzz(targets, arguments.inputs, arguments.seconds, arguments.seed)


def _fuzz(targets: Sequence[Target], inputs: int, seconds: float, seed: int) -> int:
    """Give each target its part of the inputs and of the time, by its weight."""
    weights = sum(each.weight for each in targets)
    _print_row(_HEAD)
    results: list[Result] = []
    for target in targets:
        part = target.weight / weights
        result = run(
            target,
            inputs=math.ceil(inputs * part),
            seconds=seconds / len(targets),
            seed=seed,
            found=inputs_of(target.name),
        )
        results.append(result)
        _print_row(_row(result))
        for failure in result.failures:
            _report(target.name, failure)
    total = Result(
        "all",
        sum(each.inputs for each in results),
        sum(each.seed_paths for each in results),
        sum(each.new_paths for each in results),
        sum(each.seconds for each in results),
        [failure for each in results for failure in each.failures],
    )
    _print_row(_row(total))
    return bool(total.failures)


def _row(result: Result) -> tuple[object, ...]:
    rate = round(result.inputs / result.seconds) if result.seconds else 0
    counts = (result.inputs, result.seed_paths, result.new_paths, len(result.failures), rate)
    return result.target, *(f"{each:,}" for each in counts)


def _print_row(cells: Iterable[object]) -> None:
    name, *numbers = cells
    _print(f"{name:22}" + "".join(f"{each:>12}" for each in numbers))


def _report(target: str, failure: Failure) -> None:
    """Save an input that fails, and print the command that reads it again."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{target}-{hashlib.sha256(failure.data).hexdigest()[:8]}"
    path.write_bytes(failure.data)
    _print(f"  {failure.text}")
    _print(f"  input: {failure.data[:200]!r}")
    _print(f"  repeat: python -m tests.fuzz --targets {target} --input {path.relative_to(ROOT)}")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
