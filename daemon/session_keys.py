"""The keys of TLS session tickets: new ones every hour.

OpenSSL keeps the keys of a context forever. An attacker who learns them can decrypt each ticket,
and take its client's identity. New keys also bound how long a client can resume: then its
certificate, and those of its CAs, are verified again.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from authorizerd.daemon.certificates import Certificates
from authorizerd.daemon.process.threads import run_in_thread

KEYS_SECONDS: Final = 3600.0

_logger = logging.getLogger(__name__)


async def renew_session_keys(certificates: Certificates) -> None:
    """Replace the keys every KEYS_SECONDS until cancelled."""
    while True:
        await trio.sleep(KEYS_SECONDS)
        try:
            apply = await run_in_thread(certificates.prepare_renewal)
        except OSError as error:
            _logger.warning("the keys of TLS session tickets are kept for another hour: %s", error)
        else:
            apply()
