"""The command of docs/import-export.md that needs a log of a later Kafka version."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Shell, run_page
from tests.support.acls import acl
from tests.support.log_files import added, write_log

LATER_OPERATION = 99


def test_lost_deny_is_printed_as_the_page_shows(tmp_path: Path) -> None:
    newer = acl("User:a", LATER_OPERATION, topic="orders", deny=True)
    write_log(tmp_path / "newer", [added(1, newer), added(2)])
    (tmp_path / ".venv").symlink_to(sys.prefix)
    with Shell(tmp_path) as shell:
        run_page("import-export.md", "tests/cli/transfer/test_page.py", shell, Ports())
    assert not (tmp_path / "acls.yaml").exists()
