"""The Kubernetes guide's manifests fit, and its folders and files exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from stepwatch.signals import places
from tests.guides import manifests
from tests.guides.manifests import everything, kustomizations, objects
from tests.guides.pages import ROOT, blocks, commands
from tests.guides.test_kubernetes import VERSIONS, place, validate
from tests.guides.test_kubernetes_references import GUIDE

SHOWN: list[Any] = [yaml.safe_load(block) for block in blocks(GUIDE, "yaml")]


def manifests_of_kind(kind: str) -> Any:
    """Return the guide's only object of a kind."""
    (match,) = [manifest for manifest in SHOWN if manifest.get("kind") == kind]
    return match


def test_every_folder_is_in_the_table_and_every_path_is_there() -> None:
    text = GUIDE.read_text()
    for folder in kustomizations():
        assert f"| `{place(folder)}` |" in text
    named = {word for line in commands(GUIDE) for word in line.split() if "/deploy/" in word}
    named |= set(re.findall(r"`((?:agent|collector)/deploy/[^`]+)`", text))
    assert named and all((ROOT / name).exists() for name in named)


def test_the_policy_of_a_database_fits_and_is_about_the_collectors() -> None:
    policy = manifests_of_kind("NetworkPolicy")
    validate(policy)
    wanted = policy["spec"]["podSelector"]["matchLabels"].items()
    policies = [
        pod
        for where, pod in manifests.pods(everything())
        if where == policy["metadata"]["namespace"] and wanted <= pod["metadata"]["labels"].items()
    ]
    assert [pod["spec"]["serviceAccountName"] for pod in policies] == ["stepwatch-collector"]


def test_the_overlay_is_built_of_what_it_names(tmp_path: Path) -> None:
    shown = manifests_of_kind("Kustomization")
    # The guide's overlay expects a checkout next to it.
    (tmp_path / "stepwatch").symlink_to(ROOT)
    expected = [
        manifest
        for name in shown["resources"]
        for manifest in objects(ROOT / name.removeprefix("stepwatch/"))
    ]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(shown))
    overlay_objects = manifests.kubectl_build(tmp_path)
    assert sorted(map(manifests.key_of, overlay_objects)) == sorted(map(manifests.key_of, expected))
    (name,) = shown["images"]
    for _, pod in manifests.pods(overlay_objects):
        for container in pod["spec"]["containers"]:
            assert container["image"] == f"{name['newName']}:{name['newTag']}"
    (agent,) = manifests.the_pod(overlay_objects, "stepwatch-agent")["containers"]
    assert agent["securityContext"]["privileged"], "the component is in it"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_training_pod_mounts_what_the_agent_reads_and_names_its_node_alike(version: str) -> None:
    (shown,) = [manifest for manifest in SHOWN if "volumeMounts" in manifest]
    container = {"name": "train", "image": "training:1", "volumeMounts": shown["volumeMounts"]}
    spec = {"containers": [{**container, "env": shown["env"]}], "volumes": shown["volumes"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": spec}
    kubernetes_validate.validate(pod, version, strict=True)
    agents = manifests.the_pod(everything(), "stepwatch-agent")
    (agent,) = agents["containers"]
    (rings,) = shown["volumes"]
    assert rings in agents["volumes"]
    (mount,) = shown["volumeMounts"]
    assert f"--ring-dir={mount['mountPath']}" in agent["args"]
    assert Path(mount["mountPath"]) == places.DEFAULT_RING_DIR
    settings = {entry["name"]: entry for entry in shown["env"]}
    assert settings[places.ENV_NODE]["valueFrom"] == agent["env"][0]["valueFrom"]
