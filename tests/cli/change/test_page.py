"""docs/change.md: its files are those of the example. docs/documents.md has the plan's fields."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import yaml

from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.plan.document import Plan
from authorizerd.management.plan.selector import Managed

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs/change.md").read_text()
FIELDS: Final = (ROOT / "docs/documents.md").read_text()
BLOCKS: Final = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_page_shows_the_example() -> None:
    assert BLOCKS[0] == (ROOT / "tools/example/desired.yaml").read_text()


def test_block_of_what_is_managed_is_valid() -> None:
    scope = FORMATS["yaml"].read(BLOCKS[1]).scope
    assert scope is not None
    assert scope.entries[2] == Managed(
        principal="User:alice", resource_type="TOPIC", resource_name="orders", pattern_type="ANY"
    )


def test_job_of_github_actions_is_valid_yaml() -> None:
    job = yaml.safe_load(BLOCKS[2])["jobs"]["plan"]
    assert all("run" in step or "uses" in step for step in job["steps"])


def test_job_shows_the_end_of_a_large_plan(tmp_path: Path) -> None:
    """The totals, the warnings and the failed checks are behind the diff."""
    (command,) = re.findall(r"^ +(\{ echo .*\}) >", PAGE, re.MULTILINE)
    (tmp_path / "plan.txt").write_text("+   ALLOW\n" * 20_000 + "totals\n")
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("totals\n```\n")
    assert len(done.stdout) < 65_536, "the limit of GitHub's comments"


def test_every_field_of_a_plan_is_described() -> None:
    fields = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", FIELDS, re.MULTILINE)
    named = {name for cell in fields for name in re.findall(r"`(\w+)`", cell)}
    assert set(Plan.__struct_fields__) <= named
