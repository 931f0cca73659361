"""The ACLs that a running daemon or cluster serves, from ``authorizerd acls --list``.

The command runs as a separate process, so that this package imports nothing from the daemon.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from authorizerd.replay.acls.errors import AclSourceError

SCHEME: Final = "kafka://"
"""Without an address, the cluster of the profile: see docs/command-line.md."""
PROFILE: Final = "AUTHORIZERD_PROFILE"

# -P: a folder named "authorizerd" in the working directory must not be imported.
_LIST_ACLS: Final = (sys.executable, "-P", "-m", "authorizerd.cli.main", "acls")
_ERROR_HEADING: Final = "Error while executing ACL command: "


def list_acls(
    source: str, command_config: Path | None, *, command: tuple[str, ...] = _LIST_ACLS
) -> str:
    """Return the listing of ``kafka://HOST:PORT[,HOST:PORT…]``; blocks for the command's own time.

    Args:
        source: ``kafka://`` alone for the cluster of the profile, which the command reads.
        command_config: a properties file for the connection, as for ``acls --command-config``.

    Raises:
        AclSourceError: the address is malformed or missing, or the command failed.
        UnicodeDecodeError: the listing is not UTF-8.
    """
    servers = source.removeprefix(SCHEME)
    is_of_profile = source == SCHEME and command_config is None and bool(os.environ.get(PROFILE))
    if not (servers or is_of_profile) or any(character in servers for character in "/?#@ "):
        reason = f"expected an address of the form kafka://HOST:PORT, or a profile in {PROFILE}"
        raise AclSourceError(source, reason)
    words = [*command, *(() if is_of_profile else ("--bootstrap-server", servers)), "--list"]
    if command_config is not None:
        words += ["--command-config", str(command_config)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        listing = done.stdout.decode(errors="replace").splitlines()
        errors = [line.strip() for line in listing if line.startswith(_ERROR_HEADING)]
        errors += filter(None, map(str.strip, done.stderr.decode(errors="replace").splitlines()))
        errors += [f"listing the ACLs failed with exit code {done.returncode}"]
        raise AclSourceError(source, errors[0].removeprefix(_ERROR_HEADING))
    return done.stdout.decode()
