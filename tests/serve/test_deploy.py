"""samples/deploy: image and manifests fit each other, this server, and Kubernetes' schemas."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from irc_compiler.cli.main import make_parser
from irc_compiler.serve.metrics import TABLES
from support.serving import Server

yaml = pytest.importorskip("yaml", reason="not run: PyYAML is not installed")
FOLDER = Path(__file__).resolve().parents[2] / "samples" / "deploy"
KUBERNETES = "1.32"


def load_all(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def find(kind: str) -> dict[str, Any]:
    objects = [*load_all("kubernetes.yaml"), *load_all("kserve.yaml")]
    (found,) = [o for o in objects if o["kind"] == kind]
    return found


def entry_point() -> list[str]:
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return json.loads(re.findall(r"^ENTRYPOINT (\[.*\])", text, re.M)[0])


def parse(words: list[str]) -> Any:
    """What `irc serve` makes of a container's arguments behind the image's entry point."""
    program, verb, *rest = entry_point()
    assert (program, verb) == ("irc", "serve")
    return make_parser("serve").parse_args([*rest, *words])


DEPLOYMENT = find("Deployment")
POD = DEPLOYMENT["spec"]["template"]["spec"]
RUNTIME = find("ServingRuntime")
CONTAINERS = {
    "Deployment": POD["containers"][0],
    "ServingRuntime": RUNTIME["spec"]["containers"][0],
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_the_arguments_are_those_of_the_command(kind: str) -> None:
    args = parse(CONTAINERS[kind]["args"])
    opened = {args.http, args.grpc, args.metrics}
    assert {port["containerPort"] for port in CONTAINERS[kind]["ports"]} <= opened
    assert args.host == "0.0.0.0" and not args.allow_load


@pytest.mark.parametrize("kind", CONTAINERS)
def test_the_probes_ask_what_the_server_answers(kind: str, server: Server) -> None:
    container = CONTAINERS[kind]
    probes = [value["httpGet"] for name, value in container.items() if name.endswith("Probe")]
    names = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in probes:
        assert names.get(probe["port"], probe["port"]) == parse(container["args"]).http
        with urllib.request.urlopen(f"http://{server.http}{probe['path']}", timeout=60) as response:
            assert response.status == 200


def test_the_pod_outlives_the_drain() -> None:
    container = POD["containers"][0]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pause + parse(container["args"]).drain < POD["terminationGracePeriodSeconds"]


def test_the_autoscaler_reads_a_metric_of_the_server() -> None:
    spec = find("HorizontalPodAutoscaler")["spec"]
    (metric,) = spec["metrics"]
    assert metric["pods"]["metric"]["name"] in {entry.name for entry in TABLES["irc"]}
    assert spec["scaleTargetRef"]["name"] == DEPLOYMENT["metadata"]["name"]


def test_selectors_choose_the_pods() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert find("Service")["spec"]["selector"] == labels
    assert find("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    mounted = {mount["name"] for mount in POD["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in POD["volumes"]}


def test_the_manifests_follow_the_schemas() -> None:
    """KServe's kinds have none there; their container is checked as one of a pod."""
    try:
        import kubernetes_validate  # pyright: ignore[reportMissingImports]
    except ImportError:
        pytest.skip("not run: kubernetes-validate is missing (pip install kubernetes-validate)")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runtime"}}
    pod["spec"] = {"containers": RUNTIME["spec"]["containers"]}
    objects = [*load_all("kubernetes.yaml"), pod]
    assert len(objects) == 5
    for each in objects:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    broken = {**pod, "spec": {"containers": [{"name": "x", "imagee": "y"}]}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_the_serving_runtime_is_one_of_kserve() -> None:
    spec = RUNTIME["spec"]
    assert RUNTIME["apiVersion"] == "serving.kserve.io/v1alpha1"
    assert set(spec["protocolVersions"]) == {"v2", "grpc-v2"}
    assert spec["containers"][0]["name"] == "kserve-container"
    service = find("InferenceService")["spec"]["predictor"]["model"]
    assert service["runtime"] == RUNTIME["metadata"]["name"]
    formats = {entry["name"] for entry in spec["supportedModelFormats"]}
    assert service["modelFormat"]["name"] in formats
