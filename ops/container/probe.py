"""Ask the daemon of this container whether it is alive or ready; exit with 0 if it is.

**Invariant:** this module imports only the standard library. HEALTHCHECK and probes run it every
few seconds, so it must start fast. It runs in the container because the admin port is loopback
only.

    python -I -m authorizerd.container.probe /readyz
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from typing import Final

ADMIN: Final = "127.0.0.1:8182"
SECONDS_MAX: Final = 3.0
_ANSWER_BYTES_MAX: Final = 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the answer, and return 0 if its status is 200, else 1."""
    parser = argparse.ArgumentParser(prog="probe", description="Ask the admin port.")
    parser.add_argument("path", choices=("/healthz", "/readyz"))
    parser.add_argument("--admin", default=ADMIN, metavar="HOST:PORT")
    parsed = parser.parse_args(arguments)
    connection = HTTPConnection(parsed.admin, timeout=SECONDS_MAX)
    try:
        connection.request("GET", parsed.path)
        response = connection.getresponse()
        answer = response.read(_ANSWER_BYTES_MAX).decode(errors="replace")
    except (OSError, HTTPException) as error:
        sys.stdout.write(f"{parsed.admin} does not answer: {error}\n")
        return 1
    finally:
        connection.close()
    sys.stdout.write(f"{answer}\n")
    return 0 if response.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
