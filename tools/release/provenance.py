"""Write the provenance of a release: what it was built from, in the format of SLSA.

The statement is not signed; RELEASING.md signs it. Source: in-toto Statement v1
(https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md) and SLSA Provenance v1
(https://slsa.dev/spec/v1.0/provenance).

**Invariant:** the text has no time and no id of a run, so that a second build gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tools.release.packages import SUMS, Release

SITE: Final = "https://authorizerd.example"
"""The host is reserved for examples: put in yours, here and wherever `git grep` finds it."""
_VERSION_FLAGS: Final = {"javac": "-version", "helm": "version"}


def write_provenance(
    out: Path, source: Path, commit: str, release: Release, programs: Mapping[str, str]
) -> Path:
    """Write the statement about all files in ``out``, and return its path.

    Args:
        source: the exported commit, whose lock files are named with their hashes.
        programs: the paths of the programs that built the packages, by their names.
    """
    path = out / f"authorizerd-{release.version}.intoto.json"
    subjects = [each for each in sorted(out.iterdir()) if each not in {path, out / SUMS}]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [_describe(each) for each in subjects],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{SITE}/docs/make-release/v1",
                "externalParameters": {"command": "make release", "version": release.version},
                "internalParameters": {"SOURCE_DATE_EPOCH": release.epoch},
                "resolvedDependencies": [
                    {"uri": f"git+{SITE}/authorizerd.git", "digest": {"gitCommit": commit}},
                    *map(_describe, sorted(source.glob("requirements*.lock"))),
                ],
            },
            "runDetails": {
                "builder": {
                    "id": f"{SITE}/builder",
                    "version": {"python": sys.version.split()[0], **_list_versions(programs)},
                },
            },
        },
    }
    path.write_text(json.dumps(statement, indent=2) + "\n")
    return path


def _describe(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"name": path.name, "digest": {"sha256": digest}}


def _list_versions(programs: Mapping[str, str]) -> dict[str, str]:
    """Return the first line that each program prints about its version."""
    return {
        name: subprocess.run(  # noqa: S603 - programs that the caller chose
            [path, _VERSION_FLAGS.get(name, "--version")],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ).stdout.splitlines()[0]
        for name, path in programs.items()
    }
