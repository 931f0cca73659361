"""``make release``: what is released, and that each build gives the same bytes."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.programs import output_of
from tests.support.sizes import IS_WHOLE
from tools.release import bundle
from tools.release.__main__ import PACKED, find_program
from tools.release.distributions import Builders, build_distribution_packages
from tools.release.packages import Release, ReleaseError, normalize, write_checksums
from tools.release.provenance import write_provenance
from tools.release.source import export_commit, read_commit, read_epoch, read_release
from tools.release.versions import in_package_form, read_version, write_manifests

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / ".venv-release/bin/python"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
BUILD = """
import sys
from pathlib import Path
from shutil import which
from tools.release.__main__ import PACKED, PYTHON, build
from tools.release.packages import Release, write_install_files
from tools.release.versions import read_version
source, out = Path(sys.argv[1]), Path(sys.argv[2])
write_install_files(PYTHON, source)
programs = {name: path for name in PACKED if (path := which(name))}
build(source, out, Release(read_version(), 1_700_000_000), programs)
"""
BUILT = {
    None: {
        "authorizerd.tar.gz", "authorizerd.cdx.json", "authorizerd.whl", "authorizerd_client.whl",
        "authorizerd_mirror.whl",
    },
    "helm": {"authorizerd.tgz"},
    "npm": {"authorizerd-client.tgz"},
    "javac": {"authorizerd-client.jar"},
    "dpkg-deb": {"authorizerd_amd64.deb", "authorizerd_arm64.deb"},
    "rpmbuild": {"authorizerd.x86_64.rpm", "authorizerd.aarch64.rpm"},
}  # fmt: skip
"""What each program builds, without the version."""
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
    version = rf"[-_]{re.escape(in_package_form(read_version()))}(-1(?=\.)|-py3-none-any)?"
    kinds = {re.sub(version, "", name) for name in built[0]}
    assert kinds == set().union(
        *(BUILT[each] for each in BUILT if each is None or shutil.which(each))
    )
    (sdist,) = (tmp_path / "out1").glob("*.tar.gz")
    (wheel,) = (tmp_path / "out1").glob("authorizerd-*.whl")
    with tarfile.open(sdist) as read:
        names = {name.partition("/")[2] for name in read.getnames()}
    assert {"PKG-INFO", "CHANGELOG.md", "SECURITY.md", "docs/authorizerd.1"} <= names
    assert not [name for name in names if name.startswith(("tests/", "clients/"))]
    with zipfile.ZipFile(wheel) as packed:
        assert {each.date_time[:3] for each in packed.infolist()} == {(2023, 11, 14)}


def test_every_program_of_a_release_is_tried() -> None:
    assert BUILT.keys() == {None, *PACKED}


def test_clients_have_the_version_of_the_daemon() -> None:
    """If this fails, run ``python -m tools.release.versions``."""
    manifests = write_manifests()
    assert len(manifests) == 4
    for path, text in manifests.items():
        assert path.read_text() == text


def test_development_version_precedes_its_release_in_every_registry(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "clients", tmp_path / "clients")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "7.8.0.dev3"\n')
    texts = {path.name: text for path, text in write_manifests(tmp_path).items()}
    assert json.loads(texts["package.json"])["version"] == "7.8.0-dev.3"
    assert "\n    <version>7.8.0-SNAPSHOT</version>\n" in texts["pom.xml"]
    assert '\nversion = "7.8.0.dev3"\n' in texts["pyproject.toml"]
    assert in_package_form("7.8.0.dev3") == "7.8.0~dev3"


@pytest.mark.parametrize("version", ["1.2", "1.2.0rc1", "v1.2.0", "1.2.0.dev"])
def test_version_that_registries_sort_differently_is_rejected(tmp_path: Path, version: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    with pytest.raises(ValueError, match=r"expected a version such as 1\.2\.0 or 1\.2\.0\.dev0"):
        read_version(tmp_path)


def test_unreleased_changes_have_a_development_version() -> None:
    """Otherwise, `--version` would show them as the release before them."""
    text = (ROOT / "CHANGELOG.md").read_text()
    unreleased = text.partition("## Unreleased\n")[2].partition("\n## ")[0].strip()
    if ".dev" not in read_version():
        assert unreleased == "", "set the next version, such as 1.2.0.dev0, in pyproject.toml"
        assert read_epoch(text, read_version())


def test_trial_of_a_development_version_has_the_time_of_its_commit(repository: Path) -> None:
    (repository / "pyproject.toml").write_text('[project]\nversion = "1.3.0.dev0"\n')
    when = {**os.environ, "GIT_COMMITTER_DATE": "1700000000 +0000"}
    subprocess.run([*GIT, "commit", "-qam", "Go on"], cwd=repository, check=True, env=when)
    assert read_release(repository, is_tagged=False) == ("1.3.0.dev0", 1_700_000_000)
    with pytest.raises(ReleaseError, match="expected a section"):
        read_release(repository, is_tagged=True)


def test_provenance_names_files_commit_locks_and_programs(repository: Path, tmp_path: Path) -> None:
    out = tmp_path / "dist"
    out.mkdir()
    (out / "a.whl").write_bytes(b"x")
    (out / "SHA256SUMS").write_bytes(b"of an earlier build")
    (repository / "requirements.lock").write_bytes(b"y")
    release, programs = Release("1.2.3", 5), {"git": str(shutil.which("git"))}
    written = [
        write_provenance(out, repository, read_commit(repository), release, programs).read_bytes()
        for _ in "ab"
    ]
    assert written[0] == written[1]
    statement = json.loads(written[0])
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    digest = {"sha256": hashlib.sha256(b"x").hexdigest()}
    assert statement["subject"] == [{"name": "a.whl", "digest": digest}]
    definition = statement["predicate"]["buildDefinition"]
    commit, lock = definition["resolvedDependencies"]
    assert commit["digest"] == {
        "gitCommit": output_of("git", "rev-parse", "HEAD", cwd=repository).strip()
    }
    digest = {"sha256": hashlib.sha256(b"y").hexdigest()}
    assert lock == {"name": "requirements.lock", "digest": digest}
    assert statement["predicate"]["runDetails"]["builder"]["version"]["git"].startswith("git ")


def new_wheel(folder: Path, name: str, *files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as written:
        for each in files:
            written.writestr(each, each)
    return folder / name


@pytest.fixture
def daemon_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a wheel with the files that systemd gets; downloads give two libraries."""

    def download(_lock: Path, python: str, _machine: str, folder: Path) -> dict[str, Path]:
        tag = f"cp{python.replace('.', '')}"
        wheels = [
            new_wheel(folder, "pure-1-py3-none-any.whl", "pure.py"),
            new_wheel(folder, f"fast-1-{tag}-{tag}.whl", f"fast.{tag}.so"),
        ]
        return {each.name: each for each in wheels}

    monkeypatch.setattr(bundle, "_download", download)
    share = "authorizerd-7.8.0.data/data/share"
    units = [
        f"{share}/authorizerd/systemd/{each.name}" for each in (ROOT / "ops/systemd").iterdir()
    ]
    man, zsh = f"{share}/man/man1/authorizerd.1", f"{share}/zsh/site-functions/_authorizerd"
    name = "authorizerd-7.8.0-py3-none-any.whl"
    return new_wheel(tmp_path / "wheel", name, "authorizerd/__init__.py", man, zsh, *units)


def build_package(kind: str, wheel: Path, out: Path) -> Path:
    """Build the package of one kind for arm64."""
    out.mkdir()
    program = shutil.which(kind) or pytest.skip(f"{kind} is not installed")
    builders = Builders(program, None) if kind == "dpkg-deb" else Builders(None, program)
    release = Release("7.8.0", 1_700_000_000)
    build_distribution_packages(ROOT, wheel, out, release, builders, {"arm64": "aarch64"})
    (built,) = out.iterdir()
    return built


@pytest.mark.parametrize("kind", ["dpkg-deb", "rpmbuild"])
def test_package_has_the_same_bytes_each_time(
    kind: str, daemon_wheel: Path, tmp_path: Path
) -> None:
    first = build_package(kind, daemon_wheel, tmp_path / "one").read_bytes()
    umask = os.umask(0o077)
    try:
        assert build_package(kind, daemon_wheel, tmp_path / "two").read_bytes() == first
    finally:
        os.umask(umask)


MODES = {
    "/etc/authorizerd/": "drwxr-x---",
    "/etc/authorizerd/server.properties": "-rw-r-----",
    "/opt/authorizerd/bin/authorizerd": "-rwxr-xr-x",
    "/opt/authorizerd/lib/shared/authorizerd/__init__.py": "-rw-r--r--",
    "/opt/authorizerd/lib/shared/pure.py": "-rw-r--r--",
    "/opt/authorizerd/lib/python3.12/site-packages/fast.cp312.so": "-rw-r--r--",
    "/opt/authorizerd/lib/python3.12/site-packages/shared.pth": "-rw-r--r--",
    "/usr/lib/systemd/system/authorizerd.service": "-rw-r--r--",
    "/usr/lib/systemd/system/authorizerd-backup.timer": "-rw-r--r--",
    "/usr/lib/sysusers.d/authorizerd.conf": "-rw-r--r--",
    "/usr/share/man/man1/authorizerd.1.gz": "-rw-r--r--",
    "/usr/share/doc/authorizerd/copyright": "-rw-r--r--",
}
"""Files of both packages. Nobody but root and the daemon reads the configuration."""


def test_package_for_debian_has_files_scripts_and_configuration(
    daemon_wheel: Path, tmp_path: Path
) -> None:
    package = build_package("dpkg-deb", daemon_wheel, tmp_path / "out")
    assert package.name == "authorizerd_7.8.0_arm64.deb"
    listed = [line.split() for line in output_of("dpkg-deb", "--contents", package).splitlines()]
    modes = {words[5].lstrip("."): words[0] for words in listed}
    assert {words[1] for words in listed} == {"root/root"}
    assert {path: modes.get(path) for path in MODES} == MODES
    assert "/opt/authorizerd/lib/python3.12/site-packages/pure.py" not in modes
    assert "/usr/share/zsh/vendor-completions/_authorizerd" in modes
    output_of("dpkg-deb", "--control", package, tmp_path / "control")
    assert "Version: 7.8.0\nArchitecture: arm64\n" in (tmp_path / "control/control").read_text()
    kept = (tmp_path / "control/conffiles").read_text().split()
    assert kept == [f"/{name}" for name in bundle.CONFIGURATION]
    names = {path.name for path in (tmp_path / "control").iterdir() if path.stat().st_mode & 0o100}
    assert names == {"preinst", "postinst", "prerm", "postrm"}


def test_package_for_rpm_has_files_scripts_and_configuration(
    daemon_wheel: Path, tmp_path: Path
) -> None:
    package = build_package("rpmbuild", daemon_wheel, tmp_path / "out")
    assert package.name == "authorizerd-7.8.0-1.aarch64.rpm"
    query = ("rpm", "--dbpath", tmp_path, "--query", "--package", package)
    listed = output_of(*query, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\\n]")
    modes = {name: mode for mode, name in map(str.split, listed.splitlines())}
    expected = {path.rstrip("/"): mode for path, mode in MODES.items()}
    assert {path: modes.get(path) for path in expected} == expected
    kept = output_of(*query, "--configfiles").split()
    assert kept == [f"/{name}" for name in bundle.CONFIGURATION]
    scripts = output_of(*query, "--scripts")
    for begin in ("preinstall", "posttrans", "preuninstall", "postuninstall"):
        assert f"{begin} scriptlet (using /bin/sh):\n" in scripts


def test_removal_disables_every_unit() -> None:
    units = (ROOT / "ops/systemd").glob("*.[st][eoi]*")
    enabled = {each.name for each in units if "\n[Install]\n" in each.read_text()}
    script = (ROOT / "ops/packages/before-remove").read_text()
    assert set(re.findall(r"[a-z-]+\.(?:service|socket|timer)", script)) == enabled
    assert len(enabled) == 9


def test_supported_versions_of_python_are_those_of_the_packages() -> None:
    found = re.search(r"CPython ([0-9., and]+);", (ROOT / "docs/install.md").read_text())
    assert found is not None
    assert tuple(re.findall(r"3\.\d+", found[1])) == bundle.PYTHONS


def test_tools_are_pinned_with_hashes() -> None:
    text = (ROOT / "requirements-release.lock").read_text()
    for line in (ROOT / "requirements-release.in").read_text().split("\n")[1:-1]:
        assert f"\n{line}==" in text


PROGRAM = """#!/bin/sh
echo "${0##*/} $*" >>ROOT/calls
[ "$1" != list-units ] || cat ROOT/units
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root for the packages' scripts, whose programs write their calls to ``calls``."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = ("run/systemd/system", "etc/authorizerd", "opt/authorizerd/bin", "bin")
    for folder in (*folders, "opt/authorizerd/lib/shared", f"opt/authorizerd/lib/{version}"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("systemctl", "systemd-sysusers", "systemd-tmpfiles", "chown"):
        program = tmp_path / "bin" / name
        program.write_text(PROGRAM.replace("ROOT", str(tmp_path)))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def run_script(root: Path, name: str) -> list[str]:
    """Return the calls of a script of the packages, which finds its files below ``root``."""
    (root / "calls").write_text("")
    text = (ROOT / "ops/packages" / name).read_text()
    text = text.replace("/usr/bin/python3 ", f"{sys.executable} ")
    text = re.sub(r"/(?=(?:run|etc|opt)/)", f"{root}/", text)
    subprocess.run(["sh", "-c", text], check=True)
    return (root / "calls").read_text().splitlines()


def test_upgrade_stops_all_units_and_starts_them_again(machine: Path) -> None:
    """A socket that stayed open would start the daemon while its files are replaced."""
    (machine / "units").write_text(
        "authorizerd.service      loaded active running   Apache Kafka's ACL authorizer\n"
        "authorizerd-kafka.socket loaded active listening The Kafka listener\n"
    )
    assert run_script(machine, "before-install")[1:] == [
        "systemctl stop authorizerd.service authorizerd-kafka.socket"
    ]
    (machine / "units").write_text("")
    assert len(run_script(machine, "before-install")) == 1  # a second attempt finds nothing active
    started = "systemctl start authorizerd-kafka.socket authorizerd.service"
    assert run_script(machine, "after-install")[-1] == started
    assert run_script(machine, "after-install")[-1] == "systemctl daemon-reload"


def test_upgrade_does_not_need_a_file_that_an_administrator_deleted(machine: Path) -> None:
    file = machine / "etc/authorizerd/server.properties"
    file.touch()
    changed = [call for call in run_script(machine, "after-install") if call.startswith("chown")]
    assert changed == [f"chown --from=root:root root:authorizerd {file}"]
