"""``make release``: what is released, and that each build gives the same bytes."""

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.sizes import IS_WHOLE
from tools.release.__main__ import find_program
from tools.release.packages import ReleaseError, normalize, write_checksums
from tools.release.source import export_commit, read_epoch, read_release

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / ".venv-release/bin/python"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
BUILD = """
import sys
from pathlib import Path
from tools.release.jar import build_jar
from tools.release.packages import build_client, build_packages, pack_client, write_install_files
source, out, epoch = Path(sys.argv[1]), Path(sys.argv[2]), 1_700_000_000
write_install_files(Path(".venv/bin/python").absolute(), source)
build_packages(source, out, epoch)
build_client(source, out, epoch)
pack_client(source, out, epoch, "npm")
build_jar(source, out, epoch, "javac")
"""
need_tools = pytest.mark.skipif(
    not (IS_WHOLE and TOOLS.exists() and shutil.which("npm") and shutil.which("javac")),
    reason="it takes WHOLE=1, npm, javac, and make .venv-release/.setup",
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Commit a project of version 1.2.3."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 - 2026-01-02\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*GIT, *words], cwd=tmp_path, check=True)
    return tmp_path


def archive(*entries: tuple[str, int, int]) -> bytes:
    """Return a packed tar archive of files with names, modes and times."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as written:
        for name, mode, mtime in entries:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.mtime, entry.size = mode, mtime, 1
            entry.uid, entry.uname = mtime, f"user{mtime}"
            written.addfile(entry, io.BytesIO(b"x"))
    return out.getvalue()


def test_release_without_a_program_is_rejected_unless_it_is_a_trial(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(*, is_trial: bool) -> str | None:
        return find_program("HELM", "helm", "the chart", is_trial=is_trial)

    monkeypatch.setenv("HELM", "/no/such/helm")
    with pytest.raises(ReleaseError, match=r"^/no/such/helm: not found: install it, or run make"):
        find(is_trial=False)
    assert find(is_trial=True) is None
    assert "the chart is not packaged: /no/such/helm" in capsys.readouterr().err
    monkeypatch.setenv("HELM", "sh")
    assert find(is_trial=False) == shutil.which("sh")


def test_archive_does_not_depend_on_who_made_it_and_when() -> None:
    one = normalize(archive(("a", 0o600, 5), ("b", 0o700, 6)), 9)
    assert one == normalize(archive(("b", 0o755, 8), ("a", 0o664, 7)), 9)
    with tarfile.open(fileobj=io.BytesIO(one)) as read:
        entries = [(each.name, each.mode, each.mtime, each.uid, each.uname) for each in read]
    assert entries == [("a", 0o644, 9, 0, ""), ("b", 0o755, 9, 0, "")]
    assert one != normalize(archive(("a", 0o600, 5)), 9)


def test_commit_with_the_tag_of_its_version_is_released(repository: Path) -> None:
    with pytest.raises(ReleaseError, match=r"expected the tag v1\.2\.3 on this commit, found none"):
        read_release(repository, is_tagged=True)
    assert read_release(repository, is_tagged=False) == ("1.2.3", 1_767_312_000)
    subprocess.run(["git", "tag", "v1.2.3"], cwd=repository, check=True)
    assert read_release(repository, is_tagged=True).version == "1.2.3"
    (repository / "CHANGELOG.md").write_text("## 1.2.3 - 2026-01-03\n")
    with pytest.raises(ReleaseError, match="expected no uncommitted changes, found:\n M CHANGE"):
        read_release(repository, is_tagged=True)


@pytest.mark.parametrize("text", ["## 1.2.3\n", "## Unreleased\n", "## 1x2.3 - 2026-01-02\n"])
def test_changelog_needs_a_section_with_version_and_date(text: str) -> None:
    with pytest.raises(ReleaseError, match=r"expected a section '## 1\.2\.3 - YYYY-MM-DD'"):
        read_epoch(text, "1.2.3")


def test_only_committed_files_are_exported(repository: Path, tmp_path: Path) -> None:
    (repository / "secret").touch()
    exported = export_commit(repository, tmp_path / "out")
    assert {path.name for path in exported.iterdir()} == {"CHANGELOG.md", "pyproject.toml"}


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"x")
    write_checksums(tmp_path)
    write_checksums(tmp_path)
    digest = hashlib.sha256(b"x").hexdigest()
    assert (tmp_path / "SHA256SUMS").read_text() == f"{digest}  a.whl\n"


@need_tools
def test_packages_have_the_same_bytes_each_time(tmp_path: Path) -> None:
    """Neither the folder, nor the umask, nor times of files are in them."""
    built = []
    for number, mask in ((1, 0o022), (2, 0o077)):
        source, out = tmp_path / f"source{number}", tmp_path / f"out{number}"
        export_commit(ROOT, source)
        os.utime(source / "README.md", (number, 10**9 + number))
        subprocess.run([TOOLS, "-c", BUILD, source, out], cwd=ROOT, check=True, umask=mask)
        built.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert built[0] == built[1]
    kinds = sorted(re.sub(r"-[0-9].*(?=\.)", "", name) for name in built[0])
    assert kinds == [
        "authorizerd-client.jar", "authorizerd-client.tgz", "authorizerd.gz", "authorizerd.whl",
        "authorizerd_client.whl",
    ]  # fmt: skip
    (sdist,) = (tmp_path / "out1").glob("*.tar.gz")
    (wheel,) = (tmp_path / "out1").glob("authorizerd-*.whl")
    with tarfile.open(sdist) as read:
        names = {name.partition("/")[2] for name in read.getnames()}
    assert {"PKG-INFO", "CHANGELOG.md", "SECURITY.md", "docs/authorizerd.1"} <= names
    assert not [name for name in names if name.startswith(("tests/", "clients/"))]
    with zipfile.ZipFile(wheel) as packed:
        assert {each.date_time[:3] for each in packed.infolist()} == {(2023, 11, 14)}


def test_tools_are_pinned_with_hashes() -> None:
    text = (ROOT / "requirements-release.lock").read_text()
    for line in (ROOT / "requirements-release.in").read_text().split("\n")[1:-1]:
        assert f"\n{line}==" in text
