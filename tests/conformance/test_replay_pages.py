"""The commands of the pages that need Spark, on a real broker's audit log and ACLs."""

import lzma
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.end_to_end.example_daemon import running_example
from tests.end_to_end.page_shell import Names, run_page
from tests.support.daemon_process import COMMAND
from tests.support.spark import require_spark

TEST = "tests/conformance/test_replay_pages.py"
SECONDS_MAX = 600
NEW_ACL = (
    "Current ACLs for resource "
    "`ResourcePattern(resourceType=TOPIC, name=new, patternType=LITERAL)`: \n"
    " \t(principal=User:new, host=*, operation=READ, permissionType=ALLOW)\n"
)


@pytest.mark.parametrize(
    "pages",
    [("change.md",), ("replay.md", "replay-whatif.md")],
    ids=" ".join,
)
def test_commands_run_on_this_machine(
    pages: Sequence[str], real_log_dir: Path, tmp_path: Path
) -> None:
    """A page's results except the events are removed before the next page."""
    require_spark()
    logs = tmp_path / "logs"
    logs.mkdir()
    with lzma.open(real_log_dir / "kafka-authorizer.log.xz") as log:
        (logs / "kafka-authorizer.log").write_bytes(log.read())
    (tmp_path / "kafka-authorizer.log").symlink_to(logs / "kafka-authorizer.log")
    metadata = Path(shutil.copytree(real_log_dir, tmp_path / "metadata"))
    listed = (real_log_dir / "acls-list.txt").read_text()
    (tmp_path / "new-acls.txt").write_text(listed + NEW_ACL)
    (tmp_path / "listed.txt").write_text(listed)
    for source, target in (("new-acls.txt", "acls.yaml"), ("listed.txt", "new-acls.yaml")):
        convert = ("acls", "import", source, "--to", target)
        subprocess.run([*COMMAND, *convert], cwd=tmp_path, check=True)
    real = {"/var/lib/kafka/metadata": str(metadata), "s3a://logs": str(logs)}
    with running_example(tmp_path) as daemon, daemon.shell(SECONDS_MAX) as shell:
        for page in pages:
            run_page(page, TEST, shell, Names(real, daemon.ports))
            shutil.rmtree(tmp_path / "whatif")
