"""The commands of docs/gateways.md, with each gateway that is installed."""

from pathlib import Path

import pytest

from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.gateways.gateway import DAEMON, GATEWAYS, PAGE, Gateway, require
from tests.end_to_end.gateways.rig import commands, names_for
from tests.end_to_end.page_shell import Shell, run_page

TEST = "tests/end_to_end/gateways/test_page.py"


@pytest.mark.parametrize("gateway", GATEWAYS, ids=lambda gateway: gateway.program)
def test_page_leads_from_nothing_to_a_protected_api(gateway: Gateway, tmp_path: Path) -> None:
    """docs/gateways.md has the same daemon and the same questions for each gateway."""
    require(gateway)
    with Shell(tmp_path, PATH=commands()) as shell:
        run_page(PAGE, TEST, shell, names_for(gateway, Ports()), DAEMON, gateway.section)
