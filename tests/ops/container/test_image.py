"""The image, how it prepares the configuration, its probe, and the manifests that run it."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from authorizerd.config.bounds import memory_bound_bytes
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.container.prepare import main
from authorizerd.container.probe import main as probe
from tests.ops.container.servers import SECRET, answering, serving
from tests.support.daemon_process import closed_address
from tests.support.printed import run_main
from tests.support.programs import output_of
from tools.release.source import read_epoch

ROOT = Path(__file__).parents[3]
CONTAINER = ROOT / "ops" / "container"
IMAGE = os.environ.get("AUTHORIZERD_TEST_IMAGE")


def instructions() -> list[tuple[str, str]]:
    """Return the Containerfile's instructions, each with its argument on one line."""
    text = re.sub(r"^#.*\n", "", (CONTAINER / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    parts = [line.strip().partition(" ") for line in lines if line.strip()]
    return [(name, argument.strip()) for name, _, argument in parts]


def arguments_of(name: str) -> list[str]:
    return [argument for other, argument in instructions() if other == name]


def test_both_stages_use_one_base_pinned_by_version_and_digest() -> None:
    base = arguments_of("ARG")[0]
    assert re.fullmatch(
        r"BASE=docker\.io/library/python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base
    )
    assert arguments_of("FROM") == ["${BASE} AS build", "${BASE}"]


def test_daemon_is_process_1_without_root() -> None:
    """Only exec forms are used: a shell would not pass the signals on."""
    assert re.fullmatch(r"[1-9]\d{4}:[1-9]\d{4}", arguments_of("USER")[-1])
    assert json.loads(arguments_of("ENTRYPOINT")[-1])[0].startswith("/")
    assert json.loads(arguments_of("CMD")[-1])[0] == "serve"
    assert arguments_of("STOPSIGNAL") == ["SIGTERM"]
    for command in arguments_of("RUN"):
        assert isinstance(json.loads(command), list)
    _, _, check = arguments_of("HEALTHCHECK")[-1].partition("CMD ")
    assert json.loads(check)[-2:] == ["authorizerd.container.probe", "/readyz"]


def test_only_locked_wheels_are_installed() -> None:
    locked, ours = [json.loads(run) for run in arguments_of("RUN") if '"install"' in run]
    assert {"--require-hashes", "--only-binary", "requirements.lock"} <= set(locked)
    assert {"--no-deps", "--no-index"} <= set(ours)
    assert "index-url" not in (CONTAINER / "Containerfile").read_text()


def test_every_package_is_copied_and_not_ignored() -> None:
    """The pages of `authorizerd docs` are links, too."""
    links = [path for path in (ROOT / "src/authorizerd").rglob("*") if path.is_symlink()]
    targets = [(link.parent / link.readlink()).resolve() for link in links]
    packages = {target.relative_to(ROOT).parts[0] for target in targets}
    assert {"acl", "docs", "CHANGELOG.md"} <= packages
    copies = (copy for copy in arguments_of("COPY") if "--from" not in copy)
    copied = {source for copy in copies for source in copy.split()[:-1]}
    assert packages <= copied
    assert all((ROOT / source).exists() for source in copied)
    lines = (CONTAINER / "Containerfile.dockerignore").read_text().splitlines()
    assert copied == {line[1:] for line in lines if line.startswith("!")}


def test_image_gets_the_version_and_its_date() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    environment = {**os.environ, "BUILDAH": "echo", "SYFT": "no-such-program"}
    printed = output_of(CONTAINER / "build.sh", "--pull-never", env=environment)
    assert f" --tag localhost/authorizerd:{version} " in printed
    if ".dev" not in version:
        epoch = read_epoch((ROOT / "CHANGELOG.md").read_text(), version)
        assert f" --timestamp {epoch} " in printed
    assert f" --build-arg VERSION={version} " in printed
    assert re.search(r" --build-arg REVISION=([0-9a-f]{40}|unknown) ", printed)
    assert printed.endswith(" --pull-never .\n")


@pytest.mark.skipif(
    IMAGE is None or os.geteuid() != 0,
    reason="AUTHORIZERD_TEST_IMAGE does not name an image of buildah, or the user is not root",
)
def test_image_passes_the_smoke_test() -> None:
    assert IMAGE is not None
    output_of(CONTAINER / "smoke.sh", IMAGE)


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    """A configuration in two files; the first does not end with a line break."""
    files = tmp_path / "server.properties.in", tmp_path / "listener.properties"
    files[0].write_text(
        f"node.id=7\nlog.dirs={tmp_path}/log\nlisteners=SASL_PLAINTEXT://127.0.0.1:0"
    )
    files[1].write_text(SECRET)
    return [str(file) for file in files]


def test_parts_are_joined_privately_and_a_log_formatted_once(
    tmp_path: Path, parts: list[str]
) -> None:
    config = tmp_path / "server.properties"
    assert main(["--config", str(config), "--cluster-id", "4L6g3nShT-eMCtK--X86sw", *parts]) == 0
    assert config.stat().st_mode & 0o777 == 0o600
    assert config.read_text().splitlines()[-2:] == [
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        SECRET,
    ]
    properties = tmp_path / "log" / "meta.properties"
    before = properties.read_bytes()
    assert b"cluster.id=4L6g3nShT-eMCtK--X86sw" in before
    assert main(["--config", str(config), *parts]) == 0
    assert properties.read_bytes() == before


def test_copy_of_a_followed_cluster_is_not_formatted(tmp_path: Path, parts: list[str]) -> None:
    follow = tmp_path / "follow.properties"
    follow.write_text(
        "controller.quorum.bootstrap.servers=c:1\ncontroller.listener.names=PLAINTEXT\n"
    )
    assert main(["--config", str(tmp_path / "server.properties"), *parts, str(follow)]) == 0
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(("variable", "key"), [
    ("KAFKA_NODE_ID", "node.id"),
    ("KAFKA_LISTENER_NAME_A_PLAIN_SASL_JAAS_CONFIG", "listener.name.a.plain.sasl.jaas.config"),
    ("KAFKA_LISTENER_NAME_A_SCRAM___SHA___512_X__Y", "listener.name.a.scram-sha-512.x_y"),
    ("KAFKA_CONFIG_PROVIDERS", "config.providers"),
    ("KAFKA_SERVICE_HOST", None),
    ("KAFKA_HEAP_OPTS", None),
])  # fmt: skip
def test_variable_of_kafkas_images_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    variable: str, key: str | None,
) -> None:  # fmt: skip
    monkeypatch.setenv(variable, "hidden")
    monkeypatch.setenv("KAFKA_SUPER_USERS", "hidden")
    part = str(tmp_path / "missing.properties")
    assert main(["--config", str(tmp_path / "made"), part]) == 1
    said = capfd.readouterr().err
    assert (f"{variable}: has no effect in this image: write {key}=… into {part}" in said) == (
        key is not None
    )
    assert "KAFKA_SUPER_USERS: has no effect in this image: write super.users=…" in said
    assert "hidden" not in said


def test_missing_part_is_named_and_nothing_is_written(tmp_path: Path, parts: list[str]) -> None:
    config, missing = tmp_path / "server.properties", tmp_path / "none"
    printed = run_main("--config", config, *parts, missing, code=1, main=main)
    assert str(missing) in printed.err
    assert not config.exists()
    assert not (tmp_path / "log").exists()


def test_invalid_configuration_does_not_replace_the_old_one(
    tmp_path: Path, parts: list[str]
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("before")
    with Path(parts[1]).open("a") as part:
        part.write("\nauthorizerd.workers=many\nqueued.max.requests=0\n")
    lines = run_main("--config", config, *parts, code=1, main=main).err.splitlines()
    assert [line.split(": ")[2] for line in lines] == ["authorizerd.workers", "queued.max.requests"]
    assert config.read_text() == "before"


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
def test_only_status_200_is_success_and_the_answer_is_printed(status: int, code: int) -> None:
    with serving(answering(status, b"the answer")) as address:
        printed = run_main("/readyz", "--admin", address, code=code, main=probe)
    assert printed.out == "the answer\n"


def test_closed_port_is_failure() -> None:
    address = closed_address()
    printed = run_main("/healthz", "--admin", address, code=1, main=probe)
    assert f"{address} does not answer" in printed.out


KUBERNETES_VERSION = "1.31.0"
COMPOSE = yaml.safe_load((CONTAINER / "compose.yaml").read_text())


RESOURCES = [*filter(None, yaml.safe_load_all((CONTAINER / "kubernetes.yaml").read_text()))]


def the(kind: str, name: str = "authorizerd") -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = (r for r in RESOURCES if (r["kind"], r["metadata"]["name"]) == (kind, name))
    return found


SET = the("StatefulSet")["spec"]
POD = SET["template"]
CONTAINERS = POD["spec"]["initContainers"] + POD["spec"]["containers"]
PORTS = {
    port["name"]: port["containerPort"]
    for container in CONTAINERS
    for port in container.get("ports", ())
}


def configure(place: str) -> Configuration:
    """Return the daemon's configuration in Compose or Kubernetes."""
    text = (CONTAINER / "config" / "server.properties").read_text()
    if place == "kubernetes":
        text = the("ConfigMap")["data"]["server.properties"]
    return parse(f"{text}\n{SECRET}\n", source=place)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource["kind"])
def test_resource_matches_its_kubernetes_schema(resource: dict[str, Any]) -> None:
    kubernetes_validate.validate(resource, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda container: container["name"])
def test_container_of_the_pod_is_confined(container: dict[str, Any]) -> None:
    """It meets the Pod Security Standard "restricted"."""
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} == container["resources"].keys()
    context = POD["spec"]["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    user = re.search(r"^USER (\d+):(\d+)$", (CONTAINER / "Containerfile").read_text(), re.MULTILINE)
    assert user is not None
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user[1]), int(user[2]))


@pytest.mark.parametrize("place", ["compose", "kubernetes"])
def test_configuration_is_valid_and_has_the_ports_of_the_manifests(place: str) -> None:
    configuration = configure(place)
    assert not configuration.ignored_keys
    assert configuration.metadata_log_dir == "/var/lib/authorizerd/log"
    assert configuration.admin_http.port == 8182
    assert configuration.decision_http.port == PORTS["decision-http"]
    assert configuration.decision_stream is not None
    assert configuration.decision_stream.port == PORTS["stream"]
    assert [listener.port for listener in configuration.listeners] == [PORTS["kafka"]]
    assert configuration.metrics_http == HttpEndpoint(host="0.0.0.0", port=PORTS["metrics"])
    exposed = re.search(r"^EXPOSE (.+)$", (CONTAINER / "Containerfile").read_text(), re.MULTILINE)
    assert exposed is not None
    assert sorted(exposed[1].split()) == sorted(str(port) for port in PORTS.values())


@pytest.mark.parametrize("place", ["compose", "kubernetes"])
def test_memory_limit_is_enough_for_all_connections_at_their_limits(place: str) -> None:
    """A daemon with 20,000 ACLs used 70 MiB. Queued audit lines may take as much again."""
    configuration = configure(place)
    assert configuration.workers == 1, "each worker needs as much again"
    (daemon,) = (each for each in CONTAINERS if each["name"] == "authorizerd")
    assert daemon["resources"]["limits"]["memory"] == "1Gi"
    assert COMPOSE["services"]["authorizerd"]["mem_limit"] == "1g"
    at_rest_bytes, acl_bytes = 128 << 20, 512
    assert at_rest_bytes + memory_bound_bytes(configuration, 20_000 * acl_bytes) <= 1 << 30


def test_selectors_match_the_pod_and_its_ports() -> None:
    """Kubernetes accepts a Service, a budget or a policy that selects nothing."""
    labels = POD["metadata"]["labels"]
    for kind, name in (("Service", "authorizerd"), ("Service", "authorizerd-metrics")):
        spec = the(kind, name)["spec"]
        assert spec["selector"] == labels
        for port in spec["ports"]:
            assert PORTS[port["targetPort"]] == port["port"]
    assert the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert SET["selector"]["matchLabels"] == labels
    assert SET["serviceName"] == "authorizerd-metrics"
    policy = the("NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    admitted = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert sorted(admitted) == sorted(PORTS)


def test_prometheus_scrapes_the_metrics_as_the_job_of_the_rules() -> None:
    assert the("Service", "authorizerd-metrics")["spec"]["publishNotReadyAddresses"] is True
    scraped = yaml.safe_load((CONTAINER.parent / "prometheus" / "prometheus.yaml").read_text())
    (config,) = scraped["scrape_configs"]
    assert config["job_name"] == "authorizerd"
    assert config["static_configs"] == [{"targets": [f"authorizerd:{PORTS['metrics']}"]}]


def test_probes_ask_the_metrics_port() -> None:
    """A pod that is still loading is alive, but not ready."""
    (daemon,) = (each for each in CONTAINERS if each["name"] == "authorizerd")
    for name, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert daemon[name]["httpGet"] == {"path": path, "port": "metrics", "scheme": "HTTP"}


def test_one_pod_owns_the_log() -> None:
    """Two pods on one volume could each believe that the other has ended."""
    assert SET["replicas"] == 1
    assert SET["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOncePod"]


def test_every_mount_has_its_volume_and_every_command_exists() -> None:
    volumes = {volume["name"] for volume in POD["spec"]["volumes"]} | {
        claim["metadata"]["name"] for claim in SET["volumeClaimTemplates"]
    }
    mounted = {mount["name"] for each in CONTAINERS for mount in each.get("volumeMounts", ())}
    assert mounted == volumes
    image = (CONTAINER / "Containerfile").read_text()
    modules = set(re.findall(r"authorizerd\.container\.\w+", f"{CONTAINERS}{COMPOSE}{image}"))
    assert {module.rpartition(".")[2] for module in modules} == {
        path.stem for path in CONTAINER.glob("[!_]*.py")
    }


@pytest.mark.parametrize("name", ["prepare", "authorizerd"])
def test_service_of_compose_is_confined_like_the_pod(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    context = POD["spec"]["securityContext"]
    assert service["user"] == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_compose_publishes_on_loopback_only_and_pins_images() -> None:
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        assert re.match(r"(?!docker\.io/)|.*:v?\d", service["image"])
