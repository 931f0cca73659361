"""The gateways of docs/gateways.md, with the files and commands that the page has for each."""

import os
import shutil
from dataclasses import dataclass
from typing import Final

import pytest

from tests.end_to_end.documents import ROOT
from tests.end_to_end.page_shell import PATH

PAGE: Final = "gateways.md"
DAEMON: Final = "Protect an API in ten minutes"
"""The section with the credentials and the daemon."""
TRAEFIK_AND_ENVOY: Final = ROOT / ".venv-gateways" / "bin"
"""Programs that Debian does not have; ``make .venv-gateways/.setup`` installs them."""
PROGRAMS: Final = f"{PATH}{os.pathsep}{TRAEFIK_AND_ENVOY}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway.

    Attributes:
        section: its heading in the page.
        kind: the lines of `routes.yaml` that say which gateway it is.
        refusals: changes of the daemon's files by which the gateway may no longer ask: a file, a
            pattern, and what replaces it.
        has_time_limit: whether it can be told how long to wait for the daemon.
    """

    section: str
    kind: str = "gateway: nginx"
    refusals: tuple[tuple[str, str, str], ...] = (
        ("server.properties", "ask=Service:gateway;", "ask="),
        ("tokens", "(?m)^", "#"),
    )
    has_time_limit: bool = True

    @property
    def program(self) -> str:
        return self.section.lower()


GATEWAYS: Final = (
    Gateway(section="nginx"),
    Gateway(section="HAProxy"),
    Gateway(section="Caddy", kind="gateway: caddy"),
    Gateway(
        section="Traefik",
        kind="gateway: traefik",
        refusals=(
            ("server.properties", ";User:gateway", ""),
            ("server.properties", r"/\$1/", "/not-$1/"),
        ),
        has_time_limit=False,
    ),
    Gateway(section="Envoy", kind="gateway: envoy"),
)


def require(gateway: Gateway) -> None:
    """Skip the test if the gateway's program, or one of those that the page needs, is missing."""
    if None in (shutil.which("openssl"), shutil.which("curl")):
        pytest.skip("openssl or curl is not installed")
    if shutil.which(gateway.program, path=PROGRAMS) is None:
        pytest.skip(f"{gateway.program} is not installed")
