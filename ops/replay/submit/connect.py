"""Check what Spark Connect needs; its client would retry for ten minutes before it reports."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from authorizerd.replay.submit.errors import SubmissionError

_PORT: Final = 15002
_SECONDS_MAX: Final = 20.0


def check_connect(url: str) -> None:
    """Check that the client is installed, and that a server listens at ``url``.

    Raises:
        SubmissionError: the client is missing, or the server cannot be reached.
    """
    if find_spec("pyspark") is None or find_spec("grpc") is None:
        raise SubmissionError("--remote: not installed: install authorizerd[replay-connect]")
    shown = url.partition(";")[0].rstrip("/")  # without a token
    try:
        address = urlsplit(shown)
        place = (address.hostname or "", address.port or _PORT)
        socket.create_connection(place, _SECONDS_MAX).close()
    except (OSError, ValueError) as error:
        server = shown.removeprefix("sc://").partition("/")[0]
        raise SubmissionError(
            f"--remote: sc://{server}: cannot connect: {error}: start Spark Connect there, or "
            "correct the address"
        ) from error
