"""The errors of commands that read or write ZooKeeper."""

from __future__ import annotations

from authorizerd.daemon.errors import StartError


class ZooKeeperError(StartError):
    """ZooKeeper cannot be read or written; the text names the ensemble, the cause and a remedy."""


class SessionLostError(ZooKeeperError):
    """The connection was lost, and no server accepted it again within the time limit."""
