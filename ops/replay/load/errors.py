"""Errors that prevent or end a load; the text is one line for the user."""

from __future__ import annotations

from authorizerd.replay.errors import ReplayError


class LoadError(ReplayError):
    """A load cannot run, or its target does not answer as the protocol requires."""


class SendingError(ReplayError):
    """The load failed after its start, so it is unknown how much was sent."""
