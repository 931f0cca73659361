"""The libraries as a user installs them, into empty environments without network."""

import json
import shutil
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from shutil import copytree

import pytest

from tests.clients.conftest import daemon_with_tokens
from tests.clients.remote_clients import JAVA_SOURCES, find_jdk
from tests.support.daemon_process import ROOT, DaemonProcess
from tests.support.programs import output_of
from tools.release.jar import build_jar

NPM, NODE = shutil.which("npm"), shutil.which("node")
MODULES = {
    "__init__", "asyncio", "backoff", "blocking", "blocking_runtime", "client", "daemons", "errors",
    "following", "http_answer", "link", "links", "protocol", "runtime", "secure_stream", "tls",
    "trio", "values", "watch", "watch_attempts", "watch_values",
}  # fmt: skip

ASK_PYTHON = """
import importlib.util, sys
import authorizerd_client
from authorizerd_client.blocking import Client
absent = [name for name in ("trio", "authorizerd") if importlib.util.find_spec(name) is None]
import authorizerd_client.asyncio
question = authorizerd_client.Question("User:alice", None, "READ", "TOPIC", "orders")
with Client(sys.argv[1], token="proxy.secret") as client:
    print(*absent, client.decide(question), authorizerd_client.__file__)
"""
ASK_JAVA = """
import authorizerd.client.Client;
import authorizerd.client.Question;

public class Ask {
    public static void main(String[] arguments) {
        try (Client client = Client.builder(arguments[0]).token("proxy.secret").build()) {
            Question question = new Question("User:alice", null, "READ", "TOPIC", "orders");
            System.out.println(client.decide(question));
        }
    }
}
"""
ASK_JAVASCRIPT = """
import { Client } from "authorizerd-client";
const client = new Client(process.argv[2], { token: "proxy.secret" });
console.log(await client.decide(["User:alice", null, "READ", "TOPIC", "orders"]));
client.close();
"""


def copy_sources(name: str, to: Path) -> Path:
    """Copy a library's folder without the files of earlier builds."""
    left = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "node_modules")
    return Path(shutil.copytree(ROOT / "clients" / name, to / name, ignore=left))


def copy_distribution(name: str, site_packages: Path) -> None:
    """Copy an installed distribution of this environment, since there is no network."""
    installed = distribution(name)
    for file in installed.files or ():
        target = site_packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(installed.locate_file(file)), target)


def test_python_wheel_works_without_trio(tmp_path: Path, token_daemon: DaemonProcess) -> None:
    source = copy_sources("python", tmp_path)
    offline = ("--quiet", "--no-deps", "--no-index")
    build = ("-m", "pip", "wheel", *offline, "--no-build-isolation", "--wheel-dir", tmp_path)
    output_of(sys.executable, *build, source, cwd=tmp_path)
    (wheel,) = tmp_path.glob("authorizerd_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(each).decode() for each in names if each.endswith("METADATA"))
    files = {name for name in names if ".dist-info/" not in name}
    assert files == {f"authorizerd_client/{each}.py" for each in MODULES} | {
        "authorizerd_client/py.typed"
    }
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-")]
    assert needed == [
        "Requires-Python: >=3.11",
        "Requires-Dist: msgspec>=0.18",
        'Requires-Dist: trio>=0.25; extra == "trio"',
    ]

    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    (site_packages,) = environment.glob("lib/python*/site-packages")
    copy_distribution("msgspec", site_packages)
    install = (sys.executable, "-m", "pip", "--python", python, "install", *offline, wheel)
    output_of(*install, cwd=tmp_path)
    address = token_daemon.ready["decision_stream"]
    printed = output_of(python, "-c", ASK_PYTHON, address, cwd=tmp_path).split()
    assert printed[:3] == ["trio", "authorizerd", "True"]
    assert Path(printed[3]).is_relative_to(environment)


ASK_MIRROR = """
import sys
from authorizerd_client.mirror import Mirror
with Mirror(sys.argv[1], token="root.secret") as mirror:
    mirror.wait_until_ready(20)
    may = mirror.decide(("User:root", None, "READ", "TOPIC", "orders"))
print(may, *sorted(each for each in sys.modules if each.startswith("authorizerd.")))
"""


def test_mirror_is_a_wheel_of_its_own(tmp_path: Path) -> None:
    """It decides by its own copy of the code, beside the client, and without authorizerd."""
    output_of(sys.executable, "-m", "tools.mirror_wheel", tmp_path / "wheels", cwd=ROOT)
    (wheel,) = (tmp_path / "wheels").glob("authorizerd_mirror-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert all(name.startswith("authorizerd_client/mirror/") for name in names)
        archive.extractall(tmp_path / "installed")
    client = copytree(
        ROOT / "clients/python/src/authorizerd_client",
        tmp_path / "installed/authorizerd_client",
        ignore=shutil.ignore_patterns("mirror", "__pycache__"),
        dirs_exist_ok=True,
    )
    assert not (Path(client) / "mirror/__init__.py").samefile(
        ROOT / "clients/python/src/authorizerd_client/mirror/__init__.py"
    )
    for name in ("msgspec", "immutables"):
        copy_distribution(name, tmp_path / "installed")
    with daemon_with_tokens(tmp_path) as daemon:
        address = f"http://{daemon.ready['decision_http']}"
        program = f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r}){ASK_MIRROR}"
        assert output_of(sys.executable, "-I", "-c", program, address, cwd=tmp_path) == "True\n"


@pytest.mark.skipif(NPM is None or NODE is None, reason="the package needs 'npm' and 'node'")
def test_npm_package_needs_no_dependencies(tmp_path: Path, token_daemon: DaemonProcess) -> None:
    assert NPM is not None
    assert NODE is not None
    source = copy_sources("javascript", tmp_path)
    output_of(NPM, "pack", "--silent", "--offline", "--pack-destination", tmp_path, cwd=source)
    (tarball,) = tmp_path.glob("authorizerd-client-*.tgz")
    with tarfile.open(tarball) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    lib = {
        f"lib/{name}.js"
        for name in (
            "client", "daemons", "errors", "link", "links", "msgpack", "protocol", "texts", "tls",
            "watch",
        )
    }  # fmt: skip
    documents = {"README.md", "CHANGELOG.md", "LICENSE"}
    assert names == {"package.json", "index.js", "index.d.ts", *documents, *lib}

    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text(json.dumps({"name": "project", "private": True}))
    install = (NPM, "install", "--offline", "--no-audit", "--no-fund", "--silent", tarball)
    output_of(*install, cwd=project)
    (project / "ask.mjs").write_text(ASK_JAVASCRIPT)
    address = token_daemon.ready["decision_stream"]
    assert output_of(NODE, "ask.mjs", address, cwd=project) == "true\n"


def test_jar_needs_no_dependencies(tmp_path: Path, token_daemon: DaemonProcess) -> None:
    """It has a class for each source, and works on the class path and as a module."""
    javac, java = find_jdk()
    jar = build_jar(ROOT, tmp_path, 1_700_000_000, javac)
    with zipfile.ZipFile(jar) as archive:
        names = archive.namelist()
        assert {each.date_time[:3] for each in archive.infolist()} == {(2023, 11, 14)}
    sources = {each.stem for each in JAVA_SOURCES.rglob("*.java")} - {"package-info"}
    assert {Path(name).stem for name in names if "$" not in name} == sources | {
        "MANIFEST", "LICENSE"
    }  # fmt: skip
    (tmp_path / "Ask.java").write_text(ASK_JAVA)
    output_of(javac, "-cp", jar, "-d", tmp_path / "classes", "Ask.java", cwd=tmp_path)
    address = token_daemon.ready["decision_stream"]
    modules = ("--module-path", jar, "--add-modules", "authorizerd.client", "-cp", "classes")
    for options in (("-cp", f"{jar}:classes"), modules):
        assert output_of(java, *options, "Ask", address, cwd=tmp_path) == "true\n"
    described = output_of(java, "--module-path", jar, "--describe-module", "authorizerd.client")
    assert [line.split()[1] for line in described.splitlines()[1:] if "requires" in line] == [
        "java.base"
    ]
