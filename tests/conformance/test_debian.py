"""Wheel and package on new systems of Debian: installed without network, run by systemd, stopped.

The systems are made by debootstrap from its default mirror, and booted by systemd-nspawn.
``AUTHORIZERD_DEBIAN_ROOTS`` names a folder in which new ones are kept for later runs: making one
takes minutes. ``make conformance WRITE=1`` writes the transcripts into ``debian/``.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.install_files import write_install_files
from tools.release.distributions import Builders, build_distribution_packages
from tools.release.packages import Release
from tools.release.source import export_commit
from tools.release.versions import read_version

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).with_name("debian")
PACKAGES = "python3,python3-venv,systemd,systemd-sysv,ca-certificates,procps,dbus"
PROGRAMS = ("debootstrap", "systemd-nspawn", "chroot", "dpkg-deb")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)),
    reason="it needs root, dpkg, debootstrap and systemd-nspawn (the package systemd-container)",
)


def run(*command: str | Path, seconds: int = 900) -> str:
    """Return what a command prints; it must succeed."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def enter(root: Path, *words: str) -> str:
    """Run a command in a root, or boot it; it has no network but loopback."""
    isolated = ("--register=no", "--keep-unit", "--private-network", "--console=pipe")
    return run("systemd-nspawn", "--quiet", "-D", root, *isolated, *words)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = export_commit(ROOT, tmp_path_factory.mktemp("source") / "files")
    write_install_files(source)
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, source)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def package(source: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    release = Release(read_version(), 1_700_000_000)
    builders = Builders(shutil.which("dpkg-deb"), None)
    build_distribution_packages(source, wheel, folder, release, builders, {"amd64": "x86_64"})
    (built,) = folder.glob("*.deb")
    return built


def new_root(suite: str, folder: Path) -> Path:
    kept = Path(os.environ.get("AUTHORIZERD_DEBIAN_ROOTS", folder / "kept")) / suite
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        making = kept.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, making)
        making.rename(kept)
    run("cp", "-a", kept, folder / suite)
    return folder / suite


def add_wheels(root: Path, wheel: Path) -> None:
    """Put the wheel, and its dependencies for the Python of a root, into its folder /wheels."""
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = run("chroot", root, "python3", "-c", asked).strip()
    wheels = root / "wheels"
    wheels.mkdir()
    shutil.copy(wheel, wheels)
    only = ("--only-binary", ":all:", "--require-hashes", "--python-version", version)
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--dest", wheels)
    run(*pip, *only, "--requirement", ROOT / "requirements.lock")


def try_service(root: Path) -> str:
    """Boot a root in which the daemon is installed; return what the trial printed."""
    shutil.copy(HERE / "trial.sh", root)
    (root / "trial.sh").chmod(0o755)
    shutil.copy(HERE / "trial.service", root / "etc/systemd/system")
    run("chroot", root, "systemctl", "enable", "trial.service")
    enter(root, "--boot")
    transcript = (root / "trial.out").read_text()
    assert "exit code" not in transcript, transcript
    for line in (
        "0 errors, 0 warnings\n",
        "\n200 ready: 0 ACLs at log offset 7; judged by the rules of Kafka 4.4",
        '\n200 {"decision":false,',
        "\nauthorizerd_acls 0.0\n",
        "\nINFO authorizerd: the configuration is reloaded\n",
        "\nActiveState=inactive\n",
        "\nvalid\n",
        "\nwrote 7 ACLs to .run/example/log (log directory)\n",
        '\n200 {"decision":true,',
    ):
        assert line in transcript, transcript
    assert transcript.count("Result=success\nExecMainStatus=0\n") == 2
    return transcript


@pytest.mark.parametrize("suite", ["oldstable", "stable"])
def test_wheel_runs_as_a_service(
    suite: str, wheel: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    root = new_root(suite, tmp_path)
    add_wheels(root, wheel)
    shutil.copy(HERE / "install.sh", root)
    (root / "install.sh").chmod(0o755)
    enter(root, "/install.sh")
    transcript = try_service(root)
    assert transcript.count("\nactive\n") == 2
    if pytestconfig.getoption("--write-matrix"):
        (HERE / f"{suite}.txt").write_text(transcript)


@pytest.mark.parametrize("suite", ["oldstable", "stable"])
def test_package_is_installed_upgraded_and_removed(
    suite: str, package: Path, tmp_path: Path
) -> None:
    root = new_root(suite, tmp_path)
    shutil.copy(package, root / "authorizerd.deb")
    enter(root, "dpkg", "-i", "/authorizerd.deb")
    transcript = try_service(root)
    assert transcript.count("\nactive\n") == 3
    assert "\nSetting up authorizerd" in transcript
    assert "\nRemoving authorizerd" in transcript
