"""The files for Compose and Kubernetes agree with the daemon and with each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from authorizerd.config.bounds import memory_bound_bytes
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.endpoints import HttpEndpoint
from tests.ops.container.servers import SECRET

CONTAINER = Path(__file__).parents[3] / "ops" / "container"
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


@pytest.mark.parametrize(
    "resource",
    # The schema of a ServiceMonitor belongs to the Prometheus operator.
    [each for each in RESOURCES if not each["apiVersion"].startswith("monitoring.coreos.com/")],
    ids=lambda resource: resource["kind"],
)
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
    monitor, service = the("ServiceMonitor")["spec"], the("Service", "authorizerd-metrics")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["publishNotReadyAddresses"] is True
    ports = [port["name"] for port in service["spec"]["ports"]]
    assert [endpoint["port"] for endpoint in monitor["endpoints"]] == ports
    assert monitor["endpoints"][0]["relabelings"] == [
        {"targetLabel": "job", "replacement": "authorizerd"}
    ]
    scraped = yaml.safe_load((CONTAINER.parent / "prometheus" / "prometheus.yaml").read_text())
    (config,) = scraped["scrape_configs"]
    assert config["job_name"] == "authorizerd"
    assert config["static_configs"] == [{"targets": [f"authorizerd:{PORTS['metrics']}"]}]


def test_probes_ask_the_metrics_port() -> None:
    """A pod that is still loading is alive, but not ready."""
    (daemon,) = (each for each in CONTAINERS if each["name"] == "authorizerd")
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert daemon[probe]["httpGet"] == {"path": path, "port": "metrics", "scheme": "HTTP"}


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
