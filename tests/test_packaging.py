"""The installed files, and the documents about them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from authorizerd.cli.doctor.access import access_findings
from authorizerd.cli.doctor.finding import Level
from authorizerd.cli.main import main
from authorizerd.config.configuration import parse
from ops.reference import reference

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_the_packages_and_nothing_else(tmp_path: Path) -> None:
    """All modules of the project, no tests, no data, one command."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout.splitlines()
    source = tmp_path / "source"
    for name in filter(lambda name: (ROOT / name).exists(), listed):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"),
            *("--no-build-isolation", "--wheel-dir", tmp_path, source),
        ],
        check=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("authorizerd-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(
            next(name for name in names if name.endswith("entry_points.txt"))
        )
    modules = {name for name in names if ".dist-info/" not in name}
    links = [path for path in (source / "src/authorizerd").iterdir() if path.is_symlink()]
    ours = {
        f"{link.name}/{path.relative_to(link)}" for link in links for path in link.rglob("*.py")
    }
    assert modules == {f"authorizerd/{name}" for name in {"__init__.py", *ours}}
    assert entry_points.split() == (
        b"[console_scripts] authorizerd = authorizerd.cli.__main__:run_and_exit".split()
    )


def test_the_reference_of_keys_is_that_of_the_code() -> None:
    """``python -m ops.reference > docs/configuration.md`` would change nothing."""
    assert (ROOT / "docs/configuration.md").read_text() == reference()


def readme_blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_readmes_make_targets_exist() -> None:
    """Every ``make X`` that a document names exists."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ("README.md", "ARCHITECTURE.md"):
        named = re.findall(r"make ([a-z][a-z-]*)", (ROOT / document).read_text())
        assert set(named) <= targets


def test_the_readmes_links_lead_somewhere() -> None:
    """Linked documents exist."""
    for document in ("README.md", "ARCHITECTURE.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text()):
            assert (ROOT / link).exists(), link


def test_the_readmes_configuration_can_be_used_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who copies it can format a log and start, below the current folder."""
    (text,) = readme_blocks("properties")
    monkeypatch.chdir(tmp_path)
    Path("server.properties").write_text(text)
    configuration = parse(text, source="README.md")
    assert main(["format", "--config", "server.properties"]) == 0
    found = [*access_findings(Path("server.properties"), configuration)]
    assert not [each for each in found if each.level is Level.ERROR]
    for named in (configuration.metadata_log_dir, configuration.audit_log):
        assert named is not None
        assert not Path(named).is_absolute()
        assert Path(named).parent.is_dir()
