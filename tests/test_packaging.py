"""The installed files, and the documents about them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from authorizerd.cli.docs.pages import page_paths
from authorizerd.cli.doctor.access import examine_access
from authorizerd.cli.doctor.finding import Level
from authorizerd.cli.main import main
from authorizerd.config.configuration import parse
from authorizerd.daemon.telemetry.build import read_build
from authorizerd.management.formats.document import read_json
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Names, Shell, run_page
from tests.ops.replay.report.examples import write_results
from tests.support.daemon_process import new_log, running
from tests.support.fixture_types import MonkeyPatch, TempPathFactory
from tools.example.log import ACLS
from tools.install_files import write_install_files
from tools.manual.documents import COMPLETIONS
from tools.reference import reference
from tools.release.versions import write_manifests

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "tools/example/acls.yaml"
ROOMS = ("daemon/console", "replay/report")
"""The rooms that have files other than modules."""
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: TempPathFactory) -> Path:
    """Copy the files that git does not ignore, because setuptools writes into the sources."""
    source = tmp_path_factory.mktemp("source")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in run(*command, cwd=ROOT).splitlines():
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    write_install_files(source)
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, source)
    (built,) = folder.glob("authorizerd-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: TempPathFactory) -> Path:
    """Create a virtual environment with the wheel and its dependencies, but without any extra.

    The dependencies are links to the packages installed here, so the test needs no network.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    for found in dependencies():
        top_level = {file.parts[0] for file in found.files or ()}
        for name in top_level - {"..", "__pycache__"}:
            (packages / name).symlink_to(Path(str(found.locate_file(name))))
    return folder


def dependencies() -> list[Distribution]:
    """Return the installed distributions that the wheel needs without its extras."""
    found: dict[str, Distribution] = {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted: list[str] = list(project["dependencies"])
    while wanted:
        needed = Requirement(wanted.pop())
        applies = needed.marker is None or needed.marker.evaluate({"extra": ""})
        if applies and needed.name not in found:
            found[needed.name] = distribution(needed.name)
            wanted += found[needed.name].requires or ()
    return [*found.values()]


def run(*command: str | Path, cwd: Path = Path("/"), code: int = 0) -> str:
    """Return what a command prints; it must exit with ``code``."""
    done = subprocess.run(
        command, cwd=cwd, env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    return done.stdout


def test_wheel_has_one_package_without_tests_and_data(source: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (name,) = (name for name in names if name.endswith("entry_points.txt"))
        entry_points = archive.read(name)
    modules = {name for name in names if ".dist-info/" not in name and ".data/" not in name}
    links = [path for path in (source / "src/authorizerd").iterdir() if path.is_symlink()]
    ours = {
        f"{link.name}/{path.relative_to(link)}" for link in links for path in link.rglob("*.py")
    }
    for folder in (f"{room}/{kind}" for room in ROOMS for kind in ("static", "templates")):
        files = [*(source / "src/authorizerd" / folder).iterdir()]
        assert files
        ours |= {f"{folder}/{path.name}" for path in files}
    ours |= {f"daemon/http/{name}" for name in ("openapi.json", "openapi-admin.json")}
    ours |= {f"pages/{path}" for path in page_paths().values()}
    ours |= {f"presets/{path.name}" for path in (source / "ops/routes").glob("*.yaml")}
    assert modules == {f"authorizerd/{name}" for name in {"__init__.py", "py.typed", *ours}}
    assert entry_points.split() == (
        b"[console_scripts] authorizerd = authorizerd.cli.__main__:run_and_exit".split()
    )


@pytest.mark.parametrize(("words", "code", "expected"), [
    ("--version", 0, f"authorizerd {VERSION} (build {read_build()})\n"),  # as in the checkout
    ("serve --help", 0, "--ready-file"),
    ("acls --help", 1, "--allow-principal"),  # kafka-acls exits with 1 as well
    ("explain --help", 0, "--allow-everyone-if-no-acl-found"),
    ("test --help", 0, "--junit"),
    ("routes preset strimzi-bridge", 0, "  - POST /topics/{topic} -> WRITE TOPIC {topic}\n"),
    ("docs backup --section restore-a-cluster", 0, "## Restore a cluster\n"),
    ("check-log --help", 0, "--repair"),
    ("doctor --help", 0, "--json"),
    ("replay --help", 0, "whatif"),
    ("replay whatif --help", 0, "--baseline-acls"),
    ("replay ingest --input here --out there", 1, "-m pip install 'authorizerd[replay-local]' ("),
    (f"verify --logs kafka://h:1/t --acls {EXAMPLE}", 1, "install authorizerd[topics]"),
    ("replay report --run here", 1, "authorizerd replay: here: No such file or directory\n"),
    ("replay package --out /dev/null/x", 1, "/dev/null/x: Not a directory\n"),
])  # fmt: skip
def test_installed_wheel_runs_each_command(
    environment: Path, words: str, code: int, expected: str
) -> None:
    printed = run(environment / "bin/authorizerd", *words.split(), code=code)
    assert expected in printed
    if "[replay]" in expected:
        assert printed.count("\n") == 1


def test_wheel_installs_the_files_that_pages_name(environment: Path) -> None:
    share = environment / "share"
    installed = {path.relative_to(share) for path in share.rglob("*") if path.is_file()}
    units = {Path("authorizerd/systemd", path.name) for path in (ROOT / "ops/systemd").iterdir()}
    scripts = {Path(path).relative_to("/usr/share") for path in COMPLETIONS.values()}
    example = ("acls.yaml", "access.yaml", "desired.yaml", "server.properties")
    others = {
        Path("man/man1/authorizerd.1"), Path("authorizerd/requirements.lock"),
        Path("authorizerd/prometheus/rules.yaml"), Path("authorizerd/grafana/authorizerd.json"),
        *(Path("authorizerd/example", name) for name in example),
    }  # fmt: skip
    assert installed == others | units | scripts


def test_installed_wheel_prepares_the_example_of_the_tutorial(
    environment: Path, tmp_path: Path
) -> None:
    """The log has the ACLs of ``make run``."""
    (tmp_path / ".venv").symlink_to(environment)
    with Shell(tmp_path, PYTHONPATH="") as shell:
        run_page("tutorial.md", "tests/test_packaging.py", shell, Ports())
    words = ("acls", "--list", "--json", "--log-dir", ".run/example/log")
    printed = run(environment / "bin/authorizerd", *words, cwd=tmp_path)
    assert {*read_json(printed).acls} == {*ACLS}


def test_new_version_examines_the_old_ones_installation(environment: Path, tmp_path: Path) -> None:
    """Run the command of docs/upgrade.md while the old version serves."""
    with running(tmp_path, new_log(tmp_path)), Shell(tmp_path, PYTHONPATH="") as shell:
        real = {
            "/opt/authorizerd-new/bin": str(environment / "bin"),
            "/etc/authorizerd/server.properties": str(tmp_path / "server.properties"),
        }
        run_page("upgrade.md", "tests/test_packaging.py", shell, Names(real, Ports()))


def test_locked_versions_satisfy_the_requirements() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", lock, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for needed in map(Requirement, project["dependencies"]):
        assert needed.specifier, f"{needed.name} has no lower bound"
        assert needed.specifier.contains(locked[needed.name]), needed


def test_version_is_written_in_one_place() -> None:
    """Others would be forgotten at the next release. A command writes it into the clients."""
    found = run(
        "git", "grep", "-l", "-F", VERSION, "--", ":!*.lock", ":!tests/data",
        ":!tests/conformance/debian", cwd=ROOT,
    )  # fmt: skip
    holders = {*found.split()} - {"CHANGELOG.md", "SECURITY.md", "pyproject.toml"}
    holders -= {path.relative_to(ROOT).as_posix() for path in write_manifests()}
    holding = [
        name
        for name in holders
        if re.search(rf"authorizerd[^\n]{{0,12}}{re.escape(VERSION)}", (ROOT / name).read_text())
    ]
    assert holding == []


def test_wheel_contains_what_the_report_needs(wheel: Path, tmp_path: Path) -> None:
    installed, results = tmp_path / "installed", tmp_path / "run"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    write_results(results)
    program = (
        f"import runpy, sys; sys.path.insert(0, {str(installed)!r});"
        "runpy.run_module('authorizerd.replay', run_name='__main__')"
    )
    printed = run(sys.executable, "-P", "-c", program, "report", "--run", results)
    assert f"wrote {results}/report.html" in printed


def test_installed_wheel_answers_a_question(environment: Path, tmp_path: Path) -> None:
    """Run the second half of docs/install.md."""
    (tmp_path / ".venv").symlink_to(environment)
    with Shell(tmp_path, PYTHONPATH="") as shell:
        run_page("install.md", "tests/test_packaging.py", shell, Ports())


def test_configuration_page_is_up_to_date() -> None:
    """If this fails, run ``python -m tools.reference > docs/configuration.md``."""
    assert (ROOT / "docs/configuration.md").read_text() == reference()


def properties_in(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    return re.findall(r"^```properties\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_three_lines_follow_a_cluster(page: str) -> None:
    *_, text = properties_in(page)
    assert text.count("\n") == 3
    configuration = parse(text, source=page)
    assert configuration.follow is not None
    assert configuration.ignored_keys == ()


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "docs/install.md"])
def test_named_make_targets_and_linked_files_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", text)) <= targets
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / document).parent / link).exists(), link


def test_configuration_of_the_installation_works(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    (text,) = properties_in("docs/install.md")
    monkeypatch.chdir(tmp_path)
    Path("server.properties").write_text(text)
    configuration = parse(text, source="install.md")
    assert main(["format", "--config", "server.properties"]) == 0
    found = [*examine_access(Path("server.properties"), configuration)]
    assert not [each for each in found if each.level is Level.ERROR]
    for named in (configuration.metadata_log_dir, configuration.audit_log):
        assert named is not None
        assert not Path(named).is_absolute()
        assert Path(named).parent.is_dir()
