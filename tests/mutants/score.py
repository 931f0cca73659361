"""``python -m tests.mutants.score [PATH…]``: which random changes do a module's own tests notice?

cosmic-ray makes them in a copy. The tests of ``acl/search/names.py`` are those below ``tests/acl``
that import it, or all of these if none does.
"""

import argparse
import ast
import compileall
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from py_compile import PycInvalidationMode
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.mutants.trial import NOT_COPIED

_ROOT: Final = Path(__file__).parents[2]
_COSMIC_RAY: Final = _ROOT / ".venv-mutation" / "bin" / "cosmic-ray"
_RESULTS: Final = """SELECT test_outcome, start_pos_row, operator_name
FROM work_results JOIN mutation_specs USING (job_id) WHERE worker_outcome = 'NORMAL'"""
_CONFIG: Final = """\
[cosmic-ray]
module-path = {module}
timeout = {seconds}
excluded-modules = []
test-command = {command}
[cosmic-ray.distributor]
name = "local"
"""


def main(arguments: list[str] | None = None) -> int:
    """Print and write a score for each module; return 1 if one could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.score", description=__doc__)
    parser.add_argument("paths", nargs="*", metavar="PATH", default=["acl", "protocol", "metadata"])
    parser.add_argument("--changes", type=int, default=10, help="for each module; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    scores: dict[str, dict[str, Any]] = {}
    output = _ROOT / ".run" / "mutation-score.json"
    output.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="mutation-score-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(_ROOT, tree, symlinks=True, ignore=NOT_COPIED)
        # Compiled once; a changed file does not fit its hash, so it is compiled again.
        mode = PycInvalidationMode.CHECKED_HASH
        for path in (tree / "src" / "authorizerd").iterdir():
            compileall.compile_dir(path, quiet=2, invalidation_mode=mode)
        for module in _modules(asked.paths):
            if not (score := _measure(tree, module, asked.changes, f"{asked.seed} {module}")):
                continue
            scores[module] = score
            print(f"{module}: {json.dumps(score)}", flush=True)  # noqa: T201
            output.write_text(json.dumps(scores, indent=2) + "\n")
    return 0 if scores and all("score" in score for score in scores.values()) else 1


def _modules(paths: list[str]) -> Iterator[str]:
    for path in paths:
        found = [_ROOT / path] if path.endswith(".py") else sorted((_ROOT / path).rglob("*.py"))
        yield from (str(each.relative_to(_ROOT)) for each in found)


def _tests_of(module: str) -> list[str]:
    name = f"authorizerd.{module.removesuffix('.py').replace('/', '.')} import"
    tests = _ROOT / "tests" / Path(module).parts[0]
    found = [str(each) for each in sorted(tests.rglob("test_*.py")) if name in each.read_text()]
    return [each.replace(f"{_ROOT}/", "") for each in found] or [f"tests/{Path(module).parts[0]}"]


def _measure(tree: Path, module: str, changes: int, seed: str) -> dict[str, Any] | None:
    """Return None if there is nothing to change."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow"),
        *("--hypothesis-seed=0", f"--basetemp={tree.parent / 'scratch'}"),
        *_tests_of(module),
    ]
    text = shlex.join(command)
    config, session = tree.parent / "config.toml", tree.parent / "session.sqlite"
    session.unlink(missing_ok=True)
    _write(config, module, text, 600)
    _run(tree, [str(_COSMIC_RAY), "init", str(config), str(session)], check=True)
    with closing(sqlite3.connect(session)) as database, database:
        made = _sample(database, (tree / module).read_text(), changes, Random(seed))
    if not made:
        return None
    begun = time.monotonic()
    if _run(tree, command).returncode:
        return {"changes": 0, "error": "the tests fail without a change"}
    # A changed module may hang. The machine may also be slower than now.
    _write(config, module, text, 3 * (time.monotonic() - begun) + 10)
    _run(tree, [str(_COSMIC_RAY), "exec", str(config), str(session)], check=True)
    with closing(sqlite3.connect(session)) as database:
        rows = database.execute(_RESULTS).fetchall()
    survived = sorted(f"{row}: {name}" for outcome, row, name in rows if outcome == "SURVIVED")
    if len(rows) != made:
        return {"changes": made, "error": f"only {len(rows)} were tried"}
    return {"changes": made, "score": round(1 - len(survived) / made, 2), "survived": survived}


def _write(config: Path, module: str, command: str, seconds: float) -> None:
    values = {"module": json.dumps(module), "command": json.dumps(command), "seconds": seconds}
    config.write_text(_CONFIG.format(**values))


def _run(
    tree: Path, command: list[str], *, check: bool = False
) -> subprocess.CompletedProcess[Any]:
    path = os.pathsep.join([str(tree / "src"), str(tree)])
    own = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}
    devnull, env = subprocess.DEVNULL, os.environ | own
    return subprocess.run(command, cwd=tree, env=env, check=check, stdout=devnull)


def _sample(database: sqlite3.Connection, source: str, changes: int, random: Random) -> int:
    """Leave ``changes`` of the session's changes, none in an annotation; return their number."""
    unused = {place for node in ast.walk(ast.parse(source)) for place in _annotated(node)}
    rows = database.execute(
        "SELECT job_id, start_pos_row, start_pos_col FROM mutation_specs"
        " ORDER BY start_pos_row, start_pos_col, operator_name, operator_args, occurrence"
    ).fetchall()
    usable = [job for job, row, column in rows if (row, column) not in unused]
    kept = set(random.sample(usable, min(changes, len(usable))) if changes else usable)
    for job, *_ in rows:
        if job not in kept:
            database.execute("DELETE FROM mutation_specs WHERE job_id = ?", [job])
            database.execute("DELETE FROM work_items WHERE job_id = ?", [job])
    return len(kept)


def _annotated(node: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield the places in annotations of ``node``: the interpreter does not evaluate them."""
    for name in ("annotation", "returns"):
        part: ast.expr | None = getattr(node, name, None)
        if part is not None and part.lineno == part.end_lineno and part.end_col_offset:
            yield from ((part.lineno, at) for at in range(part.col_offset, part.end_col_offset))


if __name__ == "__main__":
    sys.exit(main())
