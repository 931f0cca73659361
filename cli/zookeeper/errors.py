"""The errors of commands that read or write ZooKeeper."""

from __future__ import annotations

import shlex
import sys
from typing import Final

from authorizerd.cli.errors import CommandError

INSTALL_COMMAND: Final = f"`{shlex.quote(sys.executable)} -m pip install kazoo pure-sasl`"
"""Installs ZooKeeper's packages into this Python, in a clone or from a wheel."""


class ZooKeeperError(CommandError):
    """ZooKeeper cannot be read or written; the text names the ensemble, the cause and a remedy."""


class SessionLostError(ZooKeeperError):
    """The connection was lost, and no server accepted it again within the time limit."""
