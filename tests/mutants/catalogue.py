"""All mutants by area, and the list that ``python -m tests.mutants --document`` prints."""

from collections.abc import Mapping
from typing import Final

from tests.mutants.caller_mutants import CALLER_MUTANTS
from tests.mutants.connection_mutants import CONNECTION_MUTANTS
from tests.mutants.decision_mutants import DECISION_MUTANTS
from tests.mutants.follower_mutants import FOLLOWER_MUTANTS
from tests.mutants.kafka_mutants import KAFKA_MUTANTS
from tests.mutants.log_mutants import LOG_MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.process_mutants import PROCESS_MUTANTS
from tests.mutants.setting_mutants import SETTING_MUTANTS
from tests.mutants.state_mutants import STATE_MUTANTS
from tests.mutants.token_mutants import TOKEN_MUTANTS
from tests.mutants.tool_mutants import TOOL_MUTANTS

CATALOGUE: Final[Mapping[str, Mapping[str, Mutant]]] = {
    "Log, copies and backups": LOG_MUTANTS,
    "Decisions": DECISION_MUTANTS,
    "Gating and order": STATE_MUTANTS,
    "Process": PROCESS_MUTANTS,
    "Who may ask": CALLER_MUTANTS,
    "Kafka listeners": KAFKA_MUTANTS,
    "Tokens of OAUTHBEARER": TOKEN_MUTANTS,
    "Connections and TLS": CONNECTION_MUTANTS,
    "Following a cluster": FOLLOWER_MUTANTS,
    "Settings": SETTING_MUTANTS,
    "Commands, replay and clients": TOOL_MUTANTS,
}
MUTANTS: Final = {name: each for area in CATALOGUE.values() for name, each in area.items()}
"""All mutants by what is broken."""

_HEAD: Final = """\
# Mutants

Use this list to find the test that guards a piece of code. Each line says what goes wrong when one
guard is removed from a copy of the code, and names the test that must then fail.

- `make mutants` breaks each guard in turn, runs its test, and fails if the test passes.
- `python -m tests.mutants DENY` runs only the mutants whose name contains `DENY`.
- `make test` checks that every mutant can still be made.
"""


def document() -> str:
    lines = [_HEAD]
    for title, mutants in CATALOGUE.items():
        lines += [f"## {title}\n", "| what is broken | where | found by |", "|---|---|---|"]
        lines += (_row(name, each) for name, each in mutants.items())
        lines.append("")
    return "\n".join(lines)


def _row(name: str, mutant: Mutant) -> str:
    file, _, test = mutant.found_by.partition("::")
    return f"| {name} | `{mutant.file}` | `{file}` `{test}` |"
