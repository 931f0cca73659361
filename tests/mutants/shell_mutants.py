"""Mutants of the metadata shell: each shows a secret, or lets a name command the terminal."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

SHELL_MUTANTS: Final = (
    Mutant(
        name="the shell prints the salts of SCRAM users",
        file="cli/shell/java_text.py",
        text='f"ScramCredentialData(salt={REDACTED}, ',
        becomes='f"ScramCredentialData(salt={credential.salt.hex()}, ',
        found_by="tests/cli/shell/test_log_tree.py::test_no_secret_is_printed",
    ),
    Mutant(
        name="the shell prints brokers' configs of any name",
        file="cli/shell/java_text.py",
        text="return not is_broker or _SHOWN.fullmatch(key) is not None",
        becomes="return True",
        found_by="tests/cli/shell/test_log_tree.py::test_no_secret_is_printed",
    ),
    Mutant(
        name="the shell prints names as they are",
        file="cli/shell/commands.py",
        text='self._write(f"{escape_unprintable(line)}\\n")',
        becomes='self._write(f"{line}\\n")',
        found_by="tests/cli/shell/test_commands.py::test_unprintable_characters_are_escaped",
    ),
    Mutant(
        name="everybody may read the history of the shell",
        file="cli/shell/conversation.py",
        text="os.O_EXCL, 0o600)",
        becomes="os.O_EXCL, 0o644)",
        found_by="tests/cli/shell/test_conversation.py::test_history_is_bounded_and_private",
    ),
)
