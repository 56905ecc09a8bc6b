"""The Helm chart: rendered for every values file in ``ci``, held against Kubernetes' own schemas, and against what the
daemon takes for settings. Run by ``make test-helm``, which gets Helm and the schemas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from floeberg.java.plugin_jar import CLASS_NAME, CLASS_PATH, PLUGIN_CLASS
from floeberg.settings.file import load_settings

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "floeberg"
TOKENS = "/run/secrets/floeberg"
TOOLS = ROOT / "build" / "helm"
VALUES = {file.stem: file for file in sorted((CHART / "ci").glob("*.yaml"))}
KUBERNETES = "1.36"

Manifest = dict[str, Any]

_VALIDATE = """
import json, sys, kubernetes_validate
for manifest in json.load(sys.stdin):
    kubernetes_validate.validate(manifest, sys.argv[1], strict=True)
"""


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(TOOLS / "bin" / "helm"), *arguments, "--kube-version", KUBERNETES]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def rendered(values: Path | None, *settings: str) -> list[Manifest]:
    files = () if values is None else ("--values", str(values))
    ran = helm("template", "log", str(CHART), "--namespace", "kafka", *files, *(f"--set={one}" for one in settings))
    assert ran.returncode == 0, ran.stderr
    return [manifest for manifest in yaml.safe_load_all(ran.stdout) if manifest]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def named(many: list[Manifest], name: str) -> Manifest:
    return next(one for one in many if one["name"] == name)


def check(manifests: list[Manifest]) -> None:
    """Strictly: a field that Kubernetes does not know is an error. Raises CalledProcessError."""
    subprocess.run(
        [sys.executable, "-c", _VALIDATE, KUBERNETES],
        input=json.dumps(manifests),
        env={**os.environ, "PYTHONPATH": str(TOOLS / "python")},
        text=True,
        check=True,
        timeout=60,
    )


def pod_of(manifests: list[Manifest]) -> Manifest:
    spec: Manifest = of_kind(manifests, "StatefulSet")[0]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("name", VALUES)
def test_everything_rendered_is_known_to_kubernetes(name: str) -> None:
    manifests = rendered(VALUES[name])
    # A ServiceMonitor is the Prometheus operator's.
    check([manifest for manifest in manifests if not manifest["apiVersion"].startswith("monitoring.coreos.com")])
    assert helm("lint", str(CHART), "--strict", "--values", str(VALUES[name])).returncode == 0


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    manifests = rendered(VALUES["one-broker"])
    pod_of(manifests)["containers"][1]["livenessProb"] = {}
    with pytest.raises(subprocess.CalledProcessError):
        check(manifests)


def patched_stateful_set(manifests: list[Manifest]) -> Manifest:
    """The overlay's patch put upon a StatefulSet, for what it adds, which is whole in itself."""
    patch = next(one for one in of_kind(manifests, "ConfigMap") if one["metadata"]["name"].endswith("-patch"))
    pod: Manifest = yaml.safe_load(patch["data"]["patch.yaml"])["spec"]["template"]["spec"]
    return pod


def patched_pod(manifests: list[Manifest], pod: Manifest) -> Manifest:
    """A pod as the API server makes it of the policy's expressions: by its own code."""
    policy = of_kind(manifests, "MutatingAdmissionPolicy")[0]
    expressions = [mutation["jsonPatch"]["expression"] for mutation in policy["spec"]["mutations"]]
    ran = subprocess.run(
        [str(TOOLS / "bin" / "admission")],
        input=json.dumps({"Expressions": expressions, "Pod": pod}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    patched: Manifest = json.loads(ran.stdout)
    return patched


STRIMZI_POD: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "events-brokers-12",
        "namespace": "kafka",
        "labels": {"strimzi.io/cluster": "events", "strimzi.io/broker-role": "true"},
        "annotations": {"strimzi.io/kafka-version": "4.1.1"},
    },
    "spec": {
        "containers": [
            {
                "name": "kafka",
                "image": "quay.io/strimzi/kafka",
                "volumeMounts": [{"name": "data-0", "mountPath": "/var/lib/kafka/data-0"}],
            }
        ],
        "volumes": [{"name": "data-0", "persistentVolumeClaim": {"claimName": "data-0-events-brokers-12"}}],
    },
}


@pytest.mark.parametrize("has_steps", [False, True])
def test_strimzi_broker_gets_daemon_plugin_and_volumes_from_the_api_server(has_steps: bool) -> None:
    manifests = rendered(VALUES["strimzi"])
    pod = json.loads(json.dumps(STRIMZI_POD))
    if has_steps:
        pod["spec"]["initContainers"] = [{"name": "kafka-init", "image": "quay.io/strimzi/operator"}]
    patched = patched_pod(manifests, pod)
    check([{**patched, "apiVersion": "v1", "kind": "Pod", "status": {}}])
    assert patched["metadata"]["annotations"]["floeberg/node-id"] == "12"
    spec = patched["spec"]
    assert [step["name"] for step in spec["initContainers"]][-1] == "floeberg-plugin"
    assert len(spec["initContainers"]) == 1 + has_steps
    mounts_are_of_volumes(spec)
    assert {"name": "floeberg-plugin", "mountPath": "/plugin", "readOnly": True} in spec["containers"][0][
        "volumeMounts"
    ]
    daemon = named(spec["containers"], "floeberg")
    assert mount_of_tokens(spec["containers"][0]) == mount_of_tokens(daemon)
    assert {"name": "data-0", "mountPath": "/var/lib/kafka/data-0"} in daemon["volumeMounts"]
    assert '["/var/lib/kafka/data-0/kafka-log$(NODE_ID)"]' in {one.get("value") for one in daemon["env"]}


def mounts_are_of_volumes(spec: Manifest, *more: str) -> None:
    there = {volume["name"] for volume in spec["volumes"]} | set(more)
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        wanted = {mount["name"] for mount in container.get("volumeMounts", ())}
        assert wanted <= there, container["name"]


@pytest.mark.parametrize("name", ["one-broker", "three-brokers", "watch-mode"])
def test_broker_and_daemon_of_a_pod_share_log_directory_user_and_token(name: str) -> None:
    manifests = rendered(VALUES[name])
    stateful_set = of_kind(manifests, "StatefulSet")[0]["spec"]
    pod = pod_of(manifests)
    claims = [claim["metadata"]["name"] for claim in stateful_set["volumeClaimTemplates"]]
    mounts_are_of_volumes(pod, *claims)
    broker, daemon = (named(pod["containers"], one) for one in ("kafka", "floeberg"))
    log = {"name": "log", "mountPath": "/var/lib/kafka"}
    assert log in broker["volumeMounts"]
    assert log in daemon["volumeMounts"]
    environment = {one["name"]: one for one in broker["env"]}
    assert environment["KAFKA_LOG_DIRS"]["value"] == "/var/lib/kafka/data", "the spool stands beside it"
    assert (
        daemon["securityContext"]["runAsUser"]
        == pod["securityContext"]["runAsUser"]
        == pod["securityContext"]["fsGroup"]
    )
    is_native = name != "watch-mode"
    assert (variable(CLASS_NAME) in environment) == is_native
    if is_native:
        assert environment[variable(CLASS_NAME)]["value"] == PLUGIN_CLASS
        target = Path(environment[variable(CLASS_PATH)]["value"])
        assert {"name": "floeberg-plugin", "mountPath": str(target.parent), "readOnly": True} in broker["volumeMounts"]
        assert pod["initContainers"][0]["command"][-2:] == [f"/opt/floeberg/plugin/{target.name}", f"{target.parent}/"]
        assert environment[variable("rsm.config.floeberg.token.file")]["value"] == f"{TOKENS}/log-door-token"
        assert mount_of_tokens(broker) == mount_of_tokens(daemon), "a rotated token comes to both at the same time"


def mount_of_tokens(container: Manifest) -> Manifest:
    """Without ``subPath``: Kubernetes brings no file of such a mount up to date."""
    (mount,) = (one for one in container["volumeMounts"] if one["mountPath"] == TOKENS)
    assert set(mount) == {"name", "mountPath", "readOnly"}
    return mount


def variable(name: str) -> str:
    """As Kafka's image reads a property (its KafkaDockerWrapper): _ for a dot, __ for _, ___ for -."""
    return "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


@pytest.mark.parametrize("name", VALUES)
def test_daemon_takes_what_is_rendered_for_settings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = rendered(VALUES[name])
    if name == "overlay":
        containers = patched_stateful_set(manifests)["containers"]
    elif name == "strimzi":
        containers = patched_pod(manifests, STRIMZI_POD)["spec"]["containers"]
    else:
        containers = pod_of(manifests)["containers"]
    daemon = named(containers, "floeberg")
    for one in daemon["env"]:
        if one["name"].startswith("FLOEBERG_") and one["name"] != "FLOEBERG_CONFIG":
            monkeypatch.setenv(one["name"], one.get("value", "secret"))
    file = tmp_path / "floeberg.toml"
    file.write_text(
        next(one["data"]["floeberg.toml"] for one in of_kind(manifests, "ConfigMap") if "floeberg.toml" in one["data"])
    )
    mount_of_tokens(daemon)
    (tmp_path / "log-door-token").write_text("of-the-broker")
    (tmp_path / "table-door-token").write_text("of-the-engines")
    file.write_text(file.read_text().replace(TOKENS, str(tmp_path)))
    settings = load_settings(file)
    values = yaml.safe_load(VALUES[name].read_text()) or {}
    for key, value in values.get("catalog", {}).items():
        assert settings.catalog.properties[key] == value
    if "settings" in values:
        assert settings.topics[0].name == tomllib.loads(values["settings"])["topics"][0]["name"]
    assert settings.log_door.listen.host == "127.0.0.1"
    assert settings.log_door.known_tokens == ("of-the-broker",)
    assert settings.table_door.known_tokens == ("of-the-engines",)
    ports = {port["name"]: port["containerPort"] for port in daemon["ports"]}
    assert ports["tables"] == settings.table_door.listen.port
    for probe in ("startupProbe", "livenessProbe"):
        assert daemon[probe]["httpGet"] == {"path": "/healthz", "port": "tables"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("kafka.replicas=3", "replicas"),
        ("mode=strimzi", "mode"),
        ("mode=sidecar", "mode"),
        ("kafka.replica=3", "replica"),
        ("settings=[log_door]", "settings"),
        ("dataVolume.size=lots", "size"),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, words: str) -> None:
    ran = helm("template", "log", str(CHART), f"--set={setting}")
    assert ran.returncode != 0
    assert words in ran.stderr


def test_only_pods_of_the_namespace_reach_the_tables_and_nobody_the_log_door() -> None:
    manifests = rendered(None)
    policy = of_kind(manifests, "NetworkPolicy")[0]["spec"]
    reached = {port["port"]: rule["from"] for rule in policy["ingress"] for port in rule["ports"]}
    assert reached["tables"] == [{"podSelector": {}}]
    ports = {port["name"] for container in pod_of(manifests)["containers"] for port in container["ports"]}
    assert reached.keys() == ports == {"clients", "controllers", "tables"}
    labels = of_kind(manifests, "StatefulSet")[0]["spec"]["template"]["metadata"]["labels"]
    for manifest in (*of_kind(manifests, "Service"), *of_kind(manifests, "PodDisruptionBudget")):
        selector = manifest["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items()
