"""The Helm chart: what it renders, and which values it rejects. ``HELM`` and ``KUBECONFORM`` name
the programs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from authorizerd.config.configuration import parse
from ops.release.packages import Release, package_chart
from tests.ops.container.servers import SECRET

ROOT = Path(__file__).parents[3]
CHART = ROOT / "ops/helm"
HELM = shutil.which(os.environ.get("HELM", "helm"))
KUBECONFORM = shutil.which(os.environ.get("KUBECONFORM", "kubeconform"))
VERSION = "1.31.0"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
CASES = sorted((CHART / "ci").glob("*-values.yaml"))
FOLLOW_LOG_IN = (
    "listener.name.controller.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram."
    'ScramLoginModule required username="a" password="b";\n'
)
need_helm = pytest.mark.skipif(
    HELM is None, reason="helm is not installed: go install helm.sh/helm/v3/cmd/helm@latest"
)


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    return subprocess.run([HELM, *words], capture_output=True, text=True, timeout=60, check=False)


def render(*words: str | Path) -> list[dict[str, Any]]:
    """Return the resources of the release ``x`` in the namespace ``n``."""
    done = run("template", "x", CHART, "--namespace", "n", "--kube-version", VERSION, *words)
    assert done.returncode == 0, done.stderr
    return [*filter(None, yaml.safe_load_all(done.stdout))]


def the(kind: str, resources: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any]
    found, *_ = (each for each in resources if each["kind"] == kind)
    return found


@pytest.mark.parametrize("values", CASES, ids=lambda path: path.stem)
def test_values_fit_the_schema(values: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)
    given = yaml.safe_load(values.read_text())
    merged = {
        key: {**VALUES[key], **each} if isinstance(each, dict) else each
        for key, each in given.items()
    }
    jsonschema.validate({**VALUES, **merged}, SCHEMA)


def test_schema_knows_every_value_and_no_other() -> None:
    def compare(values: dict[str, Any], schema: dict[str, Any], place: str) -> None:
        if schema.get("additionalProperties") is not False:
            return
        assert values.keys() == schema["properties"].keys() - {"global", "claims"}, place
        for key, value in values.items():
            if isinstance(value, dict):
                compare(value, schema["properties"][key], f"{place}.{key}")

    compare(VALUES, SCHEMA, "")


@pytest.mark.parametrize(
    "changed",
    [
        {"replica": 1},
        {"replicas": -1},
        {"image": {"repository": "r", "digest": "sha256:1"}},
        {"existingSecret": ""},
        {"settings": {"a b": "c"}},
        {"persistence": {"size": "5GB"}},
        {"metricsScheme": "http"},
        {"networkPolicy": {"asks": ["namespace"]}},
    ],
)
def test_schema_rejects_a_mistake(changed: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**VALUES, **changed}, SCHEMA)


@need_helm
def test_chart_has_no_fault() -> None:
    for values in CASES:
        words = ("lint", "--strict", "--kube-version", VERSION, "--values", values, CHART)
        assert "0 chart(s) failed" in run(*words).stdout


@need_helm
def test_manifests_for_kubectl_are_up_to_date() -> None:
    """If this fails, run ``make chart``."""
    words = ("--namespace", "authorizerd", "--kube-version", VERSION)
    values = CHART / "ci/all-values.yaml"
    done = run("template", "authorizerd", CHART, *words, "--values", values)
    header, _, rest = (ROOT / "ops/container/kubernetes.yaml").read_text().partition("\n")
    assert header.startswith("# Written by `make chart`")
    assert rest == done.stdout


@need_helm
@pytest.mark.parametrize("values", CASES, ids=lambda path: path.stem)
def test_rendered_resources_fit_the_schemas_of_kubernetes(values: Path) -> None:
    schemas = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate (PyPI) is not installed"
    )
    for resource in render("--values", values):
        if not resource["apiVersion"].startswith("monitoring.coreos.com/"):
            schemas.validate(resource, VERSION, strict=True)


@pytest.fixture
def schemas(tmp_path: Path) -> str:
    """Return where kubeconform finds the schemas of kubernetes-validate, without a network."""
    package = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate (PyPI) is not installed"
    )
    folder = Path(package.__file__).parent / "kubernetes-json-schema" / f"v{VERSION}-local-strict"
    shared = (folder / "_definitions.json").read_text().replace("/api/_definitions.json", "")
    definitions = json.loads(shared)["$defs"]
    for path in folder.glob("*-v1.json"):
        text = path.read_text()
        if '"x-kubernetes-group-version-kind"' in text:
            schema = json.loads(text.replace("/api/_definitions.json", ""))
            schema.pop("$id", None)
            (tmp_path / path.name).write_text(json.dumps({**schema, "$defs": definitions}))
    return str(tmp_path / "{{.ResourceKind}}{{.KindSuffix}}.json")


@need_helm
@pytest.mark.skipif(
    KUBECONFORM is None,
    reason="kubeconform is not installed: go install github.com/yannh/kubeconform/cmd/kubeconform@"
    "latest",
)
@pytest.mark.parametrize("values", CASES, ids=lambda path: path.stem)
def test_kubeconform_accepts_the_resources(values: Path, schemas: str) -> None:
    assert KUBECONFORM is not None
    words = ("template", "x", CHART, "--kube-version", VERSION, "--values", values)
    done = subprocess.run(
        [KUBECONFORM, "-strict", "-summary", "-skip=ServiceMonitor", "-schema-location", schemas],
        input=run(*words).stdout,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert "Valid: 7, Invalid: 0, Errors: 0, Skipped: 1" in done.stdout


def test_page_shows_the_values_for_tls() -> None:
    shown = (CHART / "ci/tls-values.yaml").read_text()
    assert f"```yaml\n{shown}```\n" in (ROOT / "docs/container.md").read_text()


@need_helm
def test_values_for_tls_are_a_valid_configuration() -> None:
    resources = render("--values", CHART / "ci/tls-values.yaml")
    text = the("ConfigMap", resources)["data"]["server.properties"]
    users = SECRET.replace("sasl_plaintext", "sasl_ssl")
    configuration = parse(f"{text}\n{users}\n", source="chart")
    assert configuration.ignored_keys == ()
    ports = (configuration.decision_http, configuration.decision_stream)
    assert all(port is not None and port.is_tls for port in ports)
    assert configuration.console


@need_helm
def test_followers_are_several_pods_with_a_valid_configuration() -> None:
    resources = render("--values", CHART / "ci/follow-values.yaml")
    text = the("ConfigMap", resources)["data"]["server.properties"]
    configuration = parse(f"{text}\n{SECRET}\n{FOLLOW_LOG_IN}", source="chart")
    assert configuration.ignored_keys == ()
    assert configuration.follow is not None
    assert len(configuration.follow.servers) == 2
    (listener,) = configuration.advertised_listeners
    assert (listener.host, listener.port) == ("x-authorizerd.n.svc", 9092)
    spec = the("StatefulSet", resources)["spec"]
    assert spec["replicas"] == 3
    (container,) = spec["template"]["spec"]["containers"]
    assert re.fullmatch(r"registry\.example\.com/authorizerd@sha256:\w{64}", container["image"])
    assert spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    assert the("NetworkPolicy", resources)["spec"]["egress"][0]["ports"][0]["port"] == 9093
    assert the("ServiceMonitor", resources)["metadata"]["labels"]["release"] == "prometheus"


@need_helm
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("replicas=2", "replicas: expected 1, because a log of its own belongs to one pod"),
        (r"settings.ssl\.key\.password=x", "ssl.key.password is a secret: put it into listener."),
        (r"settings.listener\.name\.a\.plain\.sasl\.jaas\.config=x", "is a secret"),
        ("persistence.size=5GB", "'5GB' does not match pattern"),
        ("replica=1", "additional properties 'replica' not allowed"),
    ],
)
def test_unusable_value_is_rejected(value: str, reason: str) -> None:
    done = run("template", "x", CHART, "--kube-version", VERSION, "--set", value)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "x is" not in done.stderr


@need_helm
def test_parts_can_be_left_out_and_nobody_is_let_in_by_that() -> None:
    off = [f"{name}.enabled=false" for name in ("podDisruptionBudget", "networkPolicy")]
    words = [word for value in (*off, "serviceAccount.create=false") for word in ("--set", value)]
    kinds = {each["kind"] for each in render(*words)}
    assert kinds == {"ConfigMap", "Service", "StatefulSet"}
    emptied = render("--set", "networkPolicy.asks=null,networkPolicy.administers=null")
    (rule,) = the("NetworkPolicy", emptied)["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == ["metrics"]


@need_helm
def test_changed_setting_replaces_the_pod() -> None:
    def checksum(*words: str) -> str:
        template = the("StatefulSet", render(*words))["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum() == checksum()
    assert checksum() != checksum("--set", r"settings.super\.users=User:b")


@need_helm
def test_values_are_escaped_as_properties() -> None:
    """No value can add a key to the configuration."""
    value = r"User:a\\b" + "\nnode.id=7"
    resources = render("--set-string", rf"settings.super\.users={value}")
    text = the("ConfigMap", resources)["data"]["server.properties"]
    configuration = parse(f"{text}\n{SECRET}\n", source="chart")
    assert configuration.node_id == 1
    assert configuration.file_values["super.users"] == "User:a\\b\nnode.id=7"


@need_helm
def test_packaged_chart_has_the_version_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    assert HELM is not None
    built = []
    for name in "ab":
        (tmp_path / name).mkdir()
        package_chart(ROOT, tmp_path / name, Release("9.8.7", 10**9), HELM)
        built.append((tmp_path / name / "authorizerd-9.8.7.tgz").read_bytes())
    assert built[0] == built[1]
    done = run("template", "x", tmp_path / "a/authorizerd-9.8.7.tgz", "--kube-version", VERSION)
    assert "image: localhost/authorizerd:9.8.7\n" in done.stdout
    assert "helm.sh/chart: authorizerd-9.8.7\n" in done.stdout
