"""The ACLs that a running daemon or cluster serves, as ``authorizerd acls --list`` lists them.

It runs as a process of its own: this package imports nothing of the daemon's.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

SCHEME: Final = "kafka://"
TIMEOUT_S: Final = 600.0
"""Well above the times that the command itself gives up after."""

# -P: a folder named "authorizerd" in the working directory must not be imported.
_LIST_ACLS: Final = (sys.executable, "-P", "-m", "authorizerd.cli.main", "acls")
_ERROR_HEADING: Final = "Error while executing ACL command: "


class ListingFailedError(Exception):
    """The ACLs could not be listed; the text is one line."""


def list_acls(
    source: str, command_config: Path | None, *, command: tuple[str, ...] = _LIST_ACLS
) -> str:
    """Return the listing of ``kafka://HOST:PORT[,HOST:PORT…]``; blocks.

    Args:
        command_config: a properties file for the connection, as ``acls --command-config`` takes.

    Raises:
        ListingFailedError: the address is malformed, or the command failed.
    """
    servers = source.removeprefix(SCHEME)
    if not servers or any(character in servers for character in "/?#@ "):
        raise ListingFailedError("an address of the form kafka://HOST:PORT is needed")
    words = [*command, "--bootstrap-server", servers, "--list"]
    if command_config is not None:
        words += ["--command-config", str(command_config)]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ListingFailedError(f"the ACLs could not be listed: {error}") from error
    if done.returncode:
        output, complaint = (
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )
        raise ListingFailedError(_reason(output, complaint, done.returncode))
    try:
        return done.stdout.decode()
    except UnicodeDecodeError as error:
        raise ListingFailedError(f"byte {error.start} of the listing is not UTF-8") from error


def _reason(output: str, complaint: str, exit_code: int) -> str:
    """Return the one line that says most: what the command told last, but for its help."""
    told = [line.strip() for line in output.splitlines() if line.startswith(_ERROR_HEADING)]
    told += [line.strip() for line in complaint.splitlines() if line.strip()][:1]
    if not told:
        return f"listing the ACLs failed with exit code {exit_code}"
    return told[0].removeprefix(_ERROR_HEADING)
