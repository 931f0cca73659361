"""The ACLs that a running daemon or cluster serves, from ``authorizerd acls --list``.

The command runs as a separate process, so that this package imports nothing from the daemon.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from authorizerd.replay.acls.errors import AclSourceError

SCHEME: Final = "kafka://"
TIMEOUT_S: Final = 600.0
"""Well above the command's own time limits."""

# -P: a folder named "authorizerd" in the working directory must not be imported.
_LIST_ACLS: Final = (sys.executable, "-P", "-m", "authorizerd.cli.main", "acls")
_ERROR_HEADING: Final = "Error while executing ACL command: "


def list_acls(
    source: str, command_config: Path | None, *, command: tuple[str, ...] = _LIST_ACLS
) -> str:
    """Return the listing of ``kafka://HOST:PORT[,HOST:PORT…]``; blocks.

    Args:
        command_config: a properties file for the connection, as for ``acls --command-config``.

    Raises:
        AclSourceError: the address is malformed, or the command failed.
    """
    servers = source.removeprefix(SCHEME)
    if not servers or any(character in servers for character in "/?#@ "):
        raise AclSourceError(source, "expected an address of the form kafka://HOST:PORT")
    words = [*command, "--bootstrap-server", servers, "--list"]
    if command_config is not None:
        words += ["--command-config", str(command_config)]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        listing = done.stdout.decode(errors="replace" if done.returncode else "strict")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AclSourceError(source, f"cannot list the ACLs: {error}") from error
    except UnicodeDecodeError as error:
        raise AclSourceError(
            source, f"the listing is not valid UTF-8 at byte {error.start}"
        ) from error
    if done.returncode:
        raise AclSourceError(source, _reason(listing, done))
    return listing


def _reason(listing: str, done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the most informative line: the command's error, without its help."""
    errors = [line.strip() for line in listing.splitlines() if line.startswith(_ERROR_HEADING)]
    errors += filter(None, map(str.strip, done.stderr.decode(errors="replace").splitlines()))
    if not errors:
        return f"listing the ACLs failed with exit code {done.returncode}"
    return errors[0].removeprefix(_ERROR_HEADING)
