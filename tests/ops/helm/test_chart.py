"""The Helm chart: what it renders, and which values it rejects. ``HELM`` and ``KUBECONFORM`` name
the programs.
"""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from authorizerd.config.configuration import Configuration, parse
from tests.ops.container.servers import SECRET
from tests.support.programs import run_program
from tools.chart_reference import write_readme
from tools.release.packages import Release, package_chart

ROOT = Path(__file__).parents[3]
CHART = ROOT / "ops/helm"
HELM = shutil.which(os.environ.get("HELM", "helm"))
KUBECONFORM = shutil.which(os.environ.get("KUBECONFORM", "kubeconform"))
VERSION = "1.31.0"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
CASES = sorted((CHART / "ci").glob("*-values.yaml"))
OPERATORS = "ServiceMonitor,PrometheusRule"
"""Kinds of the Prometheus operator, whose schemas are elsewhere."""
FOLLOW_LOG_IN = (
    "listener.name.controller.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram."
    'ScramLoginModule required username="a" password="b";\n'
)
BROKERS_LOG_IN = (
    "authorizerd.source.sasl.jaas.config=org.apache.kafka.common.security.scram."
    'ScramLoginModule required username="a" password="b";\n'
)
NEED_HELM = "helm is not installed: go install helm.sh/helm/v3/cmd/helm@latest"


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm, or skip the test if there is none."""
    return run_program(HELM or pytest.skip(NEED_HELM), *words)


def template(
    *words: str | Path, values: dict[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Render the release ``x`` in the namespace ``n``."""
    with NamedTemporaryFile("w") as file:
        file.write(json.dumps(values or {}))
        file.flush()
        given = ("--namespace", "n", "--kube-version", VERSION, "--values", file.name)
        return run("template", "x", CHART, *given, *words)


def render(*words: str | Path, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the resources of the release."""
    done = template(*words, values=values)
    assert done.returncode == 0, done.stderr
    return [*filter(None, yaml.safe_load_all(done.stdout))]


def the(kind: str, resources: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any]
    found, *_ = (each for each in resources if each["kind"] == kind)
    return found


def properties_in(resources: list[dict[str, Any]]) -> str:
    return str(the("ConfigMap", resources)["data"]["server.properties"])


def configuration_in(resources: list[dict[str, Any]], secrets: str = SECRET) -> Configuration:
    return parse(f"{properties_in(resources)}\n{secrets}\n", source="chart")


@pytest.mark.parametrize("values", CASES, ids=lambda path: path.stem)
def test_values_fit_the_schema(values: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)
    given = yaml.safe_load(values.read_text())
    merged = {
        key: without_nulls({**VALUES[key], **each}) if isinstance(each, dict) else each
        for key, each in given.items()
    }
    jsonschema.validate({**VALUES, **merged}, SCHEMA)


def without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """Return what Helm keeps: null removes a default."""
    return {key: value for key, value in values.items() if value is not None}


def test_schema_knows_every_value_and_no_other() -> None:
    def compare(values: dict[str, Any], schema: dict[str, Any], place: str) -> None:
        if schema.get("additionalProperties") is not False:
            return
        assert values.keys() == schema["properties"].keys() - {"global", "claims"}, place
        for key, value in values.items():
            if isinstance(value, dict):
                compare(value, schema["properties"][key], f"{place}.{key}")

    compare(VALUES, SCHEMA, "")


@pytest.mark.parametrize("changed", [
    {"replica": 1},
    {"replicas": -1},
    {"image": {"repository": "r", "digest": "sha256:1"}},
    {"existingSecret": ""},
    {"settings": {"a b": "c"}},
    {"settings": {"authorizerd.kafka.release": 4.3}},
    {"persistence": {"size": "5GB"}},
    {"metricsScheme": "http"},
    {"networkPolicy": {"asks": ["namespace"]}},
])  # fmt: skip
def test_schema_rejects_a_mistake(changed: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**VALUES, **changed}, SCHEMA)


def test_chart_has_no_fault() -> None:
    for values in CASES:
        words = ("lint", "--strict", "--kube-version", VERSION, "--values", values, CHART)
        assert "0 chart(s) failed" in run(*words).stdout


def test_manifests_for_kubectl_are_up_to_date() -> None:
    """If this fails, run ``make chart``. Helm 3 and 4 differ in blank lines."""
    words = ("--namespace", "authorizerd", "--kube-version", VERSION)
    values = CHART / "ci/all-values.yaml"
    done = run("template", "authorizerd", CHART, *words, "--values", values)
    header, _, rest = (ROOT / "ops/container/kubernetes.yaml").read_text().partition("\n")
    assert header.startswith("# Written by `make chart`")
    assert [*filter(None, rest.splitlines())] == [*filter(None, done.stdout.splitlines())]


@pytest.mark.parametrize("values", CASES, ids=lambda path: path.stem)
def test_rendered_resources_fit_the_schemas_of_kubernetes(values: Path) -> None:
    for resource in render("--values", values):
        if not resource["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(resource, VERSION, strict=True)


@pytest.fixture
def schemas(tmp_path: Path) -> str:
    """Return where kubeconform finds the schemas of kubernetes-validate, without a network."""
    folder = (
        Path(kubernetes_validate.__file__).parent
        / "kubernetes-json-schema"
        / f"v{VERSION}-local-strict"
    )
    shared = (folder / "_definitions.json").read_text().replace("/api/_definitions.json", "")
    definitions = json.loads(shared)["$defs"]
    for path in folder.glob("*-v1.json"):
        text = path.read_text()
        if '"x-kubernetes-group-version-kind"' in text:
            schema = json.loads(text.replace("/api/_definitions.json", ""))
            schema.pop("$id", None)
            (tmp_path / path.name).write_text(json.dumps({**schema, "$defs": definitions}))
    return str(tmp_path / "{{.ResourceKind}}{{.KindSuffix}}.json")


@pytest.mark.skipif(
    KUBECONFORM is None,
    reason="kubeconform is not installed: go install github.com/yannh/kubeconform/cmd/kubeconform@"
    "latest",
)
@pytest.mark.parametrize("values", CASES, ids=lambda path: path.stem)
def test_kubeconform_accepts_the_resources(values: Path, schemas: str) -> None:
    assert KUBECONFORM is not None
    chart = run("template", "x", CHART, "--kube-version", VERSION, "--values", values).stdout
    words = ("-strict", "-summary", f"-skip={OPERATORS}", "-schema-location", schemas)
    done = run_program(KUBECONFORM, *words, text=chart)
    assert done.returncode == 0, done.stdout
    assert "Valid: 7, Invalid: 0, Errors: 0, Skipped:" in done.stdout


def test_page_shows_the_values_for_tls() -> None:
    shown = (CHART / "ci/tls-values.yaml").read_text()
    assert f"```yaml\n{shown}```\n" in (ROOT / "docs/container.md").read_text()


def test_values_for_tls_are_a_valid_configuration() -> None:
    users = SECRET.replace("sasl_plaintext", "sasl_ssl")
    configuration = configuration_in(render("--values", CHART / "ci/tls-values.yaml"), users)
    assert configuration.ignored_keys == ()
    ports = (configuration.decision_http, configuration.decision_stream)
    assert all(port is not None and port.is_tls for port in ports)
    assert configuration.console


def test_followers_are_several_pods_with_a_valid_configuration() -> None:
    resources = render("--values", CHART / "ci/follow-values.yaml")
    configuration = configuration_in(resources, f"{SECRET}\n{FOLLOW_LOG_IN}")
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
    _, cluster = the("NetworkPolicy", resources)["spec"]["egress"]
    kafka = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}
    assert cluster == {"to": [kafka], "ports": [{"protocol": "TCP", "port": 9093}]}
    assert the("ServiceMonitor", resources)["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize(("value", "reason"), [
    ("replicas=2", "replicas: expected 1, because a log of its own belongs to one pod"),
    (r"settings.ssl\.key\.password=x", "ssl.key.password is a secret: put it into listener."),
    (r"settings.listener\.name\.a\.plain\.sasl\.jaas\.config=x", "is a secret"),
    ("persistence.size=5GB", "'5GB' does not match pattern"),
    ("replica=1", "additional properties 'replica' not allowed"),
    (r"settings.authorizerd\.metrics\.http=http://0.0.0.0:9", "such as 0.0.0.0:9182, because"),
    (r"settings.authorizerd\.metrics\.http=http://[::1]:9182", "such as 0.0.0.0:9182, because"),
    (r"settings.authorizerd\.metrics\.http=null", "such as 0.0.0.0:9182, because the Service"),
    (r"settings.listeners=PLAINTEXT://0.0.0.0:90921", "such as 0.0.0.0:9092, because the Serv"),
    (r"settings.authorizerd\.source=brokers", "networkPolicy.egress: expected rules for the f"),
    ("networkPolicy.followed[0].ipBlock.cidr=10.0.0.0/28", "expected a followed cluster in set"),
    ("securityContext.enabled=false", "securityContext: Kubernetes has no field enabled"),
    ("prometheusRule.enabled=true,prometheusRule.disabled={Up}", "of alerts, found Up"),
])  # fmt: skip
def test_unusable_value_is_rejected(value: str, reason: str) -> None:
    done = template("--set", value)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "x is" not in done.stderr


def test_parts_can_be_left_out_and_nobody_is_let_in_by_that() -> None:
    off = [f"{name}.enabled=false" for name in ("podDisruptionBudget", "networkPolicy")]
    words = [word for value in (*off, "serviceAccount.create=false") for word in ("--set", value)]
    assert {each["kind"] for each in render(*words)} == {"ConfigMap", "Service", "StatefulSet"}
    emptied = render("--set", "networkPolicy.asks=null,networkPolicy.administers=null")
    (rule,) = the("NetworkPolicy", emptied)["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == ["metrics"]


def test_objects_take_what_a_cluster_may_require() -> None:
    values: dict[str, Any] = {
        "commonLabels": {"team": "kafka"},
        "extraPodSpec": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["broker-1"]}]},
        "podDisruptionBudget": {"maxUnavailable": 0},
        "serviceMonitor": {"enabled": True, "namespace": "m"},
        "prometheusRule": {"enabled": True, "namespace": "m"},
    }
    resources = render(values=values)
    assert all(each["metadata"]["labels"]["team"] == "kafka" for each in resources)
    spec = the("StatefulSet", resources)["spec"]["template"]["spec"]
    assert spec["hostAliases"] == values["extraPodSpec"]["hostAliases"]
    budget = the("PodDisruptionBudget", resources)["spec"]
    assert budget["maxUnavailable"] == 0
    assert "minAvailable" not in budget
    assert the("PrometheusRule", resources)["metadata"]["namespace"] == "m"
    monitor = the("ServiceMonitor", resources)
    assert monitor["metadata"]["namespace"] == "m"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["n"]}


def test_changed_setting_replaces_the_pod() -> None:
    def checksum(*words: str) -> str:
        template = the("StatefulSet", render(*words))["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum() == checksum()
    assert checksum() != checksum("--set", r"settings.super\.users=User:b")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\f", "\x85", "\u2028", "\u2029"])
def test_values_are_escaped_as_properties(end: str) -> None:
    """No value can add a key to the configuration, with the line ends of Java or of YAML."""
    users = f"User:a\\b{end}node.id=7"
    configuration = configuration_in(render(values={"settings": {"super.users": users}}))
    assert configuration.node_id == 1
    assert configuration.file_values["super.users"] == users


def test_numbers_are_written_in_full() -> None:
    """YAML's numbers are floats in Helm."""
    numbers = {"metadata.max.retention.bytes": 104_857_600, "a.long": 2**53 - 1, "a.low": -7}
    values = {
        "settings": {**numbers, "allow.everyone.if.no.acl.found": False, "quoted": str(2**63 - 1)},
        "terminationGracePeriodSeconds": 10_000_000,
        "podDisruptionBudget": {"minAvailable": 10_000_000},
        "podSecurityContext": {"runAsUser": 1_000_650_000},
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 31_536_000}],
    }
    resources = render(values=values)
    lines = properties_in(resources).splitlines()
    assert {f"{key}={number}" for key, number in numbers.items()} <= {*lines}
    assert {"allow.everyone.if.no.acl.found=false", f"quoted={2**63 - 1}"} <= {*lines}
    pod = the("StatefulSet", resources)["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 10_000_000
    assert pod["securityContext"]["runAsUser"] == 1_000_650_000
    assert pod["tolerations"][0]["tolerationSeconds"] == 31_536_000
    assert the("PodDisruptionBudget", resources)["spec"]["minAvailable"] == 10_000_000
    done = template(values={"settings": {"a.long": 2**63 - 1}})
    assert "settings: a.long is a number that Helm rounds: put it in quotes" in done.stderr


def test_pods_on_openshift_ask_for_no_ids_and_stay_confined() -> None:
    resources = render("--values", CHART / "ci/openshift-values.yaml")
    configuration = configuration_in(resources, f"{SECRET}\n{BROKERS_LOG_IN}")
    assert configuration.ignored_keys == ()
    assert configuration.metadata_log_segment_bytes == 1 << 30
    pod = the("StatefulSet", resources)["spec"]
    context = pod["template"]["spec"]["securityContext"]
    assert context.keys() == {"runAsNonRoot", "fsGroupChangePolicy", "seccompProfile"}
    for kind in ("initContainers", "containers"):
        (container,) = pod["template"]["spec"][kind]
        assert container["securityContext"] == VALUES["securityContext"]
        assert {"name": "TZ", "value": "UTC"} in container["env"]
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert "/etc/authorizerd/cluster" in paths


def test_metrics_over_https_are_scraped_and_probed_over_https() -> None:
    resources = render("--values", CHART / "ci/openshift-values.yaml")
    (endpoint,) = the("ServiceMonitor", resources)["spec"]["endpoints"]
    ca = {"secret": {"name": "authorizerd", "key": "ca.pem"}}
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {"serverName": "x-authorizerd.n.svc", "ca": ca}
    assert [each["targetLabel"] for each in endpoint["relabelings"]] == ["job", "node"]
    assert [each["action"] for each in endpoint["metricRelabelings"]] == ["drop"]
    (container,) = the("StatefulSet", resources)["spec"]["template"]["spec"]["containers"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"


def test_metrics_are_scraped_as_the_job_of_the_rules() -> None:
    resources = render("--set", "serviceMonitor.enabled=true")
    monitor = the("ServiceMonitor", resources)["spec"]
    (service,) = (each for each in resources if each["metadata"]["name"].endswith("-metrics"))
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert [endpoint["port"]] == [port["name"] for port in service["spec"]["ports"]]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "authorizerd"}]
    assert endpoint["scheme"] == "http"
    assert "tlsConfig" not in endpoint


@pytest.mark.parametrize(
    "address", ["tcp://[::]:8183", "tls://${env:POD_IP}:8183", "unix:/run/authorizerd/stream", ""]
)
def test_address_that_the_service_reaches_or_that_needs_none_is_accepted(address: str) -> None:
    resources = render("--set", rf"settings.authorizerd\.decision\.stream={address}")
    lines = properties_in(resources).splitlines()
    assert f"authorizerd.decision.stream={address}" in lines


def test_job_is_that_of_the_rules_whatever_the_release_is_named() -> None:
    named = ("--set", "serviceMonitor.enabled=true,nameOverride=acls,fullnameOverride=b")
    (endpoint,) = the("ServiceMonitor", render(*named))["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "authorizerd"}]


def test_rules_are_those_of_prometheus_with_links_to_the_own_runbook() -> None:
    """The chart has a link to the file, so that nobody has to keep a copy."""
    text = (ROOT / "ops/prometheus/rules.yaml").read_text()
    assert the("PrometheusRule", render("--set", "prometheusRule.enabled=true"))[
        "spec"
    ] == yaml.safe_load(text)
    resources = render("--values", CHART / "ci/openshift-values.yaml")
    rule = the("PrometheusRule", resources)
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    base = "https://docs.example.com/authorizerd/runbook/"
    expected = yaml.safe_load(text.replace(VALUES["prometheusRule"]["runbookUrl"], base))
    for group in expected["groups"]:
        group["rules"] = [
            each for each in group["rules"] if each.get("alert") != "AuthorizerdDenialsJump"
        ]
    assert rule["spec"] == expected
    assert text.count(VALUES["prometheusRule"]["runbookUrl"]) == text.count("runbook_url: ")


@pytest.mark.parametrize(("settings", "ports"), [
    ({}, None),
    ({"authorizerd.source": "log", "controller.quorum.voters": "1@a:9093"}, None),
    ({"controller.quorum.bootstrap.servers": "a:9093, b:9093"}, [9093]),
    ({"controller.quorum.voters": "1@a:9093,2@[::1]:9193"}, [9093, 9193]),
    ({"authorizerd.source": "brokers",
      "authorizerd.source.bootstrap.servers": "SASL_SSL://a:9094,${env:B}:9095",
      "controller.quorum.voters": "1@a:9093"}, [9094, 9095]),
])  # fmt: skip
def test_pods_may_connect_to_the_followed_cluster_and_to_dns(
    settings: dict[str, str], ports: list[int] | None, tmp_path: Path
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({"settings": settings}))
    egress = the("NetworkPolicy", render("--values", file))["spec"]["egress"]
    notes = render_notes(tmp_path, "--values", file)
    if ports is None:
        assert egress == []
        assert "The NetworkPolicy lets the pods open no connection." in notes
        return
    allowed = {(each["protocol"], each["port"]) for each in egress[0]["ports"]}
    assert allowed >= {("UDP", 53), ("TCP", 53)}
    assert egress[1:] == [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}]
    assert f"at the TCP ports {','.join(map(str, ports))} of any host" in notes
    peers = "networkPolicy.followed[0].ipBlock.cidr=10.0.0.0/28"
    dns, cluster = the("NetworkPolicy", render("--values", file, "--set", peers))["spec"]["egress"]
    assert cluster["to"] == [{"ipBlock": {"cidr": "10.0.0.0/28"}}]
    assert dns == egress[0]
    own = render("--values", file, "--set-json", 'networkPolicy.egress=[{"ports":[{"port":1}]}]')
    assert the("NetworkPolicy", own)["spec"]["egress"] == [{"ports": [{"port": 1}]}]


def render_notes(folder: Path, *words: str | Path) -> str:
    """Return NOTES.txt, which helm itself shows only if it reaches a cluster."""
    copy = shutil.copytree(CHART, folder / "chart")
    notes = (copy / "templates/NOTES.txt").read_text()
    (copy / "templates/_notes.tpl").write_text(f'{{{{ define "notes" }}}}{notes}{{{{ end }}}}')
    (copy / "templates/notes.yaml").write_text('notes: {{ include "notes" . | toJson }}')
    shown = ("--show-only", "templates/notes.yaml", "--kube-version", VERSION)
    return str(yaml.safe_load(run("template", "x", copy, *shown, *words).stdout)["notes"])


def test_readme_is_generated() -> None:
    assert (CHART / "README.md").read_text() == write_readme()


def test_index_of_charts_gets_addresses_a_licence_and_an_icon_that_exists() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["icon"] == chart["home"] + "icon.svg"
    assert (ROOT / "docs/icon.svg").read_text().startswith("<svg ")
    assert chart["sources"]
    assert chart["maintainers"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["annotations"]["artifacthub.io/license"] == project["license"]
    links = yaml.safe_load(chart["annotations"]["artifacthub.io/links"])
    for link in links:
        page, _, anchor = link["url"].removeprefix(chart["home"]).partition("/")
        text = (ROOT / f"docs/{page}.md").read_text().lower()
        assert not anchor or f"\n## {anchor.removeprefix('#')}\n" in text
    assert VALUES["prometheusRule"]["runbookUrl"] == links[1]["url"]


def test_packaged_chart_has_the_version_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    helm = HELM or pytest.skip(NEED_HELM)
    built = []
    for name in "ab":
        (tmp_path / name).mkdir()
        package_chart(ROOT, tmp_path / name, Release("9.8.7", 10**9), helm)
        built.append((tmp_path / name / "authorizerd-9.8.7.tgz").read_bytes())
    assert built[0] == built[1]
    done = run("template", "x", tmp_path / "a/authorizerd-9.8.7.tgz", "--kube-version", VERSION)
    assert "image: localhost/authorizerd:9.8.7\n" in done.stdout
    assert "helm.sh/chart: authorizerd-9.8.7\n" in done.stdout
    with tarfile.open(tmp_path / "a/authorizerd-9.8.7.tgz") as archive:
        rules = archive.getmember("authorizerd/rules.yaml")
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert rules.isreg()
    assert "README.md" in names
    assert not any(name.startswith("ci") for name in names)
