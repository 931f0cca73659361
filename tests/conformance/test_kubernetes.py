"""The Helm chart, the manifests and Spark's pods on a real API server.

No pod runs: there is no kubelet, no scheduler and no network plug-in.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.api_server import PROGRAMS, ApiServer, running_api_server
from tests.support.daemon_process import wait_until
from tests.support.programs import run_program
from tests.support.spark import require_spark

ROOT = Path(__file__).parents[2]
CHART = ROOT / "ops/helm"
CASES = sorted((CHART / "ci").glob("*-values.yaml"))
NO_OPERATOR = ("--set", "serviceMonitor.enabled=false,prometheusRule.enabled=false")
NAME = "x-authorizerd"
PODS_SECONDS_MAX = 60

missing = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(
    bool(missing), reason=f"not installed: {', '.join(missing)}: see tests/conformance/api_server"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as server:
        yield server


def render(server: ApiServer, namespace: str, *words: str | Path) -> str:
    release = ("template", "x", CHART, "--namespace", namespace, "--kube-version", "1.31.0")
    done = server.run("helm", *release, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm(server: ApiServer, *words: str | Path) -> None:
    done = server.run("helm", *words)
    assert done.returncode == 0, done.stderr


def wait_for_pod(server: ApiServer, namespace: str, name: str) -> dict[str, Any]:
    def exists() -> bool:
        return server.run("kubectl", "get", "pod", name, "-n", namespace).returncode == 0

    wait_until(exists, f"pod {name}", PODS_SECONDS_MAX, 0.2)
    pod: dict[str, Any] = server.get("pod", name, "--namespace", namespace)
    return pod


@pytest.mark.parametrize("values", CASES, ids=lambda path: path.stem)
def test_restricted_namespace_admits_the_pods(server: ApiServer, values: Path) -> None:
    namespace = values.stem
    server.create_namespace(namespace)
    manifests = render(server, namespace, "--values", values, *NO_OPERATOR)
    server.apply(manifests, "--dry-run=server")
    server.apply(manifests)
    pod = wait_for_pod(server, namespace, f"{NAME}-0")
    assert pod["spec"]["serviceAccountName"] == NAME
    assert [each["name"] for each in pod["spec"]["containers"]] == ["authorizerd"]
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    assert volumes >= {"data", "run", "config", "secrets"}
    assert not any(name.startswith("kube-api-access") for name in volumes)
    claim = server.get("pvc", f"data-{NAME}-0", "--namespace", namespace)
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    rendered = {each["kind"]: each for each in yaml.safe_load_all(manifests) if each}
    policy = server.get("networkpolicy", NAME, "--namespace", namespace)
    assert policy["spec"].get("egress", []) == rendered["NetworkPolicy"]["spec"]["egress"]


def test_restricted_namespace_refuses_what_the_values_may_break(server: ApiServer) -> None:
    """Otherwise the tests of admission would prove nothing."""
    server.create_namespace("broken")
    words = ("--set", "securityContext.allowPrivilegeEscalation=true")
    manifests = render(server, "broken", *words)
    done = server.run("kubectl", "apply", "--server-side", "--filename=-", text=manifests)
    assert 'would violate PodSecurity "restricted:latest": allowPrivilegeEscalation' in done.stderr
    (template,) = (
        each["spec"]["template"]
        for each in yaml.safe_load_all(manifests)
        if each and each["kind"] == "StatefulSet"
    )
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"]["name"] = "refused"
    pod["spec"]["volumes"].append({"name": "data", "emptyDir": {}})  # as the controller adds it
    created = ("create", "--namespace=broken", "--filename=-")
    done = server.run("kubectl", *created, text=json.dumps(pod))
    assert 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation' in done.stderr


def test_manifests_need_no_operator(server: ApiServer) -> None:
    """These are the commands of docs/container.md; the chart's operator objects are optional."""
    server.create_namespace("authorizerd")
    server.kubectl("apply", "--filename", ROOT / "ops/container/kubernetes.yaml")
    wait_for_pod(server, "authorizerd", "authorizerd-0")
    monitored = render(server, "authorizerd", "--set", "serviceMonitor.enabled=true")
    done = server.run("kubectl", "apply", "--dry-run=server", "--filename=-", text=monitored)
    assert 'no matches for kind "ServiceMonitor"' in done.stderr


def test_release_is_upgraded_and_rolled_back_and_keeps_its_log(server: ApiServer) -> None:
    server.create_namespace("upgrade")
    release = ("x", CHART, "--namespace", "upgrade")
    helm(server, "install", *release)
    wait_for_pod(server, "upgrade", f"{NAME}-0")
    before = checksum(server)
    helm(server, "upgrade", *release, "--set", r"settings.super\.users=User:b")
    assert checksum(server) != before
    helm(server, "rollback", "x", "1", "--namespace", "upgrade")
    assert checksum(server) == before
    helm(server, "uninstall", "x", "--namespace", "upgrade")
    claims = server.get("pvc", "--namespace", "upgrade")["items"]
    assert [each["metadata"]["name"] for each in claims] == [f"data-{NAME}-0"]


def checksum(server: ApiServer) -> str:
    found = server.get("statefulset", NAME, "--namespace", "upgrade")
    text: str = found["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    return text


def test_drain_moves_the_only_pod_only_if_it_is_not_ready(server: ApiServer) -> None:
    server.create_namespace("drain")
    server.apply(render(server, "drain"))
    wait_for_pod(server, "drain", f"{NAME}-0")
    server.apply(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}))
    reference = {"apiVersion": "v1", "kind": "Node", "name": "node"}
    post(server, "binding", {"kind": "Binding", "apiVersion": "v1", "target": reference})
    set_ready(server, is_ready=True)
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1"}
    refused = post(server, "eviction", eviction)
    assert "Cannot evict pod as it would violate the pod's disruption budget" in refused
    set_ready(server, is_ready=False)
    assert post(server, "eviction", eviction) == ""


def post(server: ApiServer, what: str, document: dict[str, Any]) -> str:
    """Send a document to a subresource of the pod, and return the error."""
    path = f"/api/v1/namespaces/drain/pods/{NAME}-0/{what}"
    text = json.dumps({**document, "metadata": {"name": f"{NAME}-0", "namespace": "drain"}})
    return server.run("kubectl", "create", "--raw", path, "--filename=-", text=text).stderr


def set_ready(server: ApiServer, *, is_ready: bool) -> None:
    """Say what a kubelet would say, and wait until the disruption budget counts it."""
    conditions = [{"type": "Ready", "status": str(is_ready)}]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    words = ("--subresource=status", "--type=merge", "--patch", json.dumps(status))
    server.kubectl("patch", "pod", f"{NAME}-0", "--namespace=drain", *words)

    def is_counted() -> bool:
        budget = server.get("pdb", NAME, "--namespace", "drain")
        return bool(budget.get("status", {}).get("currentHealthy") == int(is_ready))

    wait_until(is_counted, "the disruption budget counts the pod", PODS_SECONDS_MAX, 0.2)


def test_spark_submits_a_driver_that_a_restricted_namespace_admits(
    server: ApiServer, tmp_path: Path
) -> None:
    """These are the command and the template of docs/replay-clusters.md."""
    require_spark()
    server.create_namespace("spark")
    server.kubectl("create", "serviceaccount", "spark", "--namespace=spark")
    page = (ROOT / "docs/replay-clusters.md").read_text()
    (line,) = re.findall(r"\$ authorizerd (replay whatif .*(?:\\\n.*)*k8s(?:.*\\\n)+.*)", page)
    (template,) = re.findall(
        r"```yaml\n(    apiVersion: v1\n    kind: Pod\n(?: .*\n)+?)    ```", page
    )
    (tmp_path / "new-acls.txt").write_text((ROOT / "tools/example/acls.yaml").read_text())
    (upload := tmp_path / "upload").mkdir()
    line = line.replace("s3a://bucket/upload", upload.as_uri())
    line = line.replace("https://cluster:6443", server.address).replace("\\\n", "")
    words = (*shlex.split(line), "--conf", "spark.kubernetes.submission.waitAppCompletion=false")
    java = {name: os.environ[name] for name in ("JAVA_HOME", "PATH") if name in os.environ}

    def submit(template: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "pod.yaml").write_text(template)
        command = (sys.executable, "-P", "-m", "authorizerd.cli", *words)
        return run_program(*command, cwd=tmp_path, env={**server.environment, **java})

    refused = submit("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: spark}]}\n")
    assert 'violates PodSecurity "restricted:latest": unrestricted capabilities' in refused.stderr
    assert refused.returncode == 1
    done = submit(textwrap.dedent(template))
    assert done.returncode == 0, done.stderr
    (pod,) = server.get("pods", "--namespace=spark", "--selector=spark-role=driver")["items"]
    (container,) = pod["spec"]["containers"]
    assert pod["status"]["phase"] == "Pending"
    assert pod["spec"]["serviceAccountName"] == "spark"
    assert container["image"] == "registry/replay:1"
    assert container["args"][-2:] == ["--plan", "plan.json"]
    assert {"name": "PYSPARK_PYTHON", "value": "python3"} in container["env"]
    assert container["resources"]["limits"]["memory"] == "1433Mi"
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (upload / container["args"][-3].removeprefix(f"{upload.as_uri()}/")).is_file()
