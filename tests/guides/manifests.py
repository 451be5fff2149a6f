"""The Kubernetes manifests, read as kustomize reads them, and the references in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.guides.pages import ROOT

Manifest = dict[str, Any]

AGENT = ROOT / "agent" / "deploy" / "kubernetes"
COLLECTOR = ROOT / "collector" / "deploy" / "kubernetes"
QUICKSTART = COLLECTOR / "quickstart"
MONITORING = (AGENT / "monitoring", COLLECTOR / "monitoring")
KUSTOMIZATION = "kustomization.yaml"


def kustomizations() -> list[Path]:
    """Every folder with a kustomization."""
    folders = [path.parent for root in (AGENT, COLLECTOR) for path in root.rglob(KUSTOMIZATION)]
    return sorted(folders)


def kustomization(folder: Path) -> Manifest:
    """The kustomization of a folder."""
    manifest: Manifest = yaml.safe_load((folder / KUSTOMIZATION).read_text())
    return manifest


def objects(folder: Path) -> list[Manifest]:
    """Every object that a kustomization names, before patches."""
    manifests: list[Manifest] = []
    for name in kustomization(folder).get("resources", []):
        place = folder / name
        if place.is_dir():
            manifests += objects(place)
        else:
            manifests += [
                document for document in yaml.safe_load_all(place.read_text()) if document
            ]
    return manifests


def kubectl_build(folder: Path) -> list[Manifest]:
    """Every object, as kubectl makes it of the kustomization."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: patches are not applied, and nothing is built")
    ran = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return list(yaml.safe_load_all(ran.stdout))


def with_component(component: Path, folder: Path) -> list[Manifest]:
    """Return a component's sibling objects with the component applied, from an overlay in
    `folder`."""
    siblings = [component.parent / name for name in ("base", "monitoring")]
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(sibling, folder) for sibling in siblings],
        "components": [os.path.relpath(component, folder)],
    }
    (folder / KUSTOMIZATION).write_text(yaml.safe_dump(overlay))
    return kubectl_build(folder)


def everything() -> list[Manifest]:
    """The quick start and the monitors, before patches."""
    return [manifest for folder in (QUICKSTART, *MONITORING) for manifest in objects(folder)]


def namespace_of(manifest: Manifest) -> str:
    """Return an object's namespace; empty if it has none."""
    return str(manifest["metadata"].get("namespace", ""))


def key_of(manifest: Manifest) -> tuple[str, str, str]:
    """Return kind, namespace and name, which identify an object."""
    return manifest["kind"], namespace_of(manifest), manifest["metadata"]["name"]


def pods(manifests: list[Manifest]) -> list[tuple[str, Manifest]]:
    """Namespace and pod template of each workload."""
    return [
        (namespace_of(manifest), manifest["spec"]["template"])
        for manifest in manifests
        if "template" in manifest.get("spec", {})
    ]


def the_pod(manifests: list[Manifest], name: str) -> Manifest:
    """The specification of the pods of a workload."""
    (pod_spec,) = [
        manifest["spec"]["template"]["spec"]
        for manifest in manifests
        if "template" in manifest.get("spec", {}) and manifest["metadata"]["name"] == name
    ]
    return dict(pod_spec)


def values_below(manifest: Any, key: str) -> Iterator[Any]:
    """Yield every value of `key` at any depth."""
    if isinstance(manifest, dict):
        for name, value in manifest.items():
            if name == key:
                yield value
            yield from values_below(value, key)
    elif isinstance(manifest, list):
        for child in manifest:
            yield from values_below(child, key)
