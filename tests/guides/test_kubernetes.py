"""The manifests fit the schemas of Kubernetes and of the Prometheus Operator, and are built."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
from pydantic import BaseModel

from tests.guides import manifests
from tests.guides.manifests import AGENT, COLLECTOR, Manifest, everything, kustomizations, objects
from tests.guides.pages import ROOT, parse_options

VERSIONS = ("1.29", "1.37")
"""The oldest and the newest Kubernetes whose schemas are checked."""
MONITORS = ("PodMonitor", "ServiceMonitor")
COMPONENTS = ("host-network", "kernel-log", "tls")


def validate(manifest: Manifest) -> None:
    """Fail if an object has an unknown field, lacks one, or has one of another type."""
    if manifest["kind"] not in MONITORS:
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)
    else:
        # The model drops unknown fields.
        round_trip = (
            operator_model(manifest["kind"])
            .model_validate(manifest)
            .model_dump(mode="json", by_alias=True, exclude_unset=True)
        )
        assert round_trip == manifest


def operator_model(kind: str) -> type[BaseModel]:
    """Return the Prometheus Operator's model of an object of a kind."""
    # Seconds to import, which each worker of pytest would take before its first test.
    from cloudcoil.models.prometheus_operator import v1

    model: type[BaseModel] = getattr(v1, kind)
    return model


def place(folder: Path) -> str:
    """A folder, as a test is named after it."""
    return str(folder.relative_to(ROOT))


@pytest.mark.parametrize("folder", kustomizations(), ids=place)
def test_each_file_is_listed_and_each_listed_file_is_there(folder: Path) -> None:
    read = manifests.kustomization(folder)
    listed = {*read.get("resources", []), *(patch["path"] for patch in read.get("patches", []))}
    assert all((folder / name).exists() for name in listed)
    files = {path.name for path in folder.iterdir() if path.is_file()} - {"kustomization.yaml"}
    assert files == {name for name in listed if (folder / name).is_file()}


@pytest.mark.parametrize("manifest", everything(), ids=lambda it: "/".join(manifests.key_of(it)))
def test_an_object_fits_its_schema(manifest: Manifest) -> None:
    validate(manifest)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("DaemonSet", {"hostPid": True}),
        ("Deployment", {"replicas": "two"}),
        ("NetworkPolicy", {"policyTypes": "Egress"}),
        ("PodMonitor", {"podMetricsEndpoint": []}),
    ],
)
def test_what_does_not_fit_is_found(kind: str, change: Manifest) -> None:
    manifest = next(candidate for candidate in everything() if candidate["kind"] == kind)
    with pytest.raises((AssertionError, kubernetes_validate.ValidationError)):
        validate({**manifest, "spec": {**manifest["spec"], **change}})


@pytest.mark.parametrize(
    "folder",
    [folder_path for folder_path in kustomizations() if folder_path.name not in COMPONENTS],
    ids=place,
)
def test_kubectl_builds_it_of_the_same_objects(folder: Path) -> None:
    built_objects = manifests.kubectl_build(folder)
    assert sorted(map(manifests.key_of, built_objects)) == sorted(
        map(manifests.key_of, objects(folder))
    )
    for manifest in built_objects:
        validate(manifest)


def test_with_tls_all_is_encrypted_and_each_option_exists(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "collector").mkdir()
    overlay_objects = manifests.with_component(AGENT / "tls", tmp_path / "agent")
    overlay_objects += manifests.with_component(COLLECTOR / "tls", tmp_path / "collector")
    for manifest in overlay_objects:
        validate(manifest)
    (agent,) = manifests.the_pod(overlay_objects, "stepwatch-agent")["containers"]
    (collector,) = manifests.the_pod(overlay_objects, "stepwatch-collector")["containers"]
    for container in (agent, collector):
        options = parse_options(container["args"])
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        read = [options.ca] if "ca" in options else [options.tls_cert, options.tls_key]
        assert all(str(Path(path).parent) in mounts for path in read)
    assert parse_options(agent["args"]).collector.startswith("https://")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert collector[probe]["httpGet"]["scheme"] == "HTTPS"
    (monitor,) = [manifest for manifest in overlay_objects if manifest["kind"] == "ServiceMonitor"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["scheme"] == "https" and "ca" in endpoint["tlsConfig"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_changes_the_agent_and_fits(component: str, tmp_path: Path) -> None:
    overlay_objects = manifests.with_component(AGENT / component, tmp_path)
    for manifest in overlay_objects:
        validate(manifest)
    plain_pod = manifests.the_pod(objects(AGENT / "base"), "stepwatch-agent")
    changed_pod = manifests.the_pod(overlay_objects, "stepwatch-agent")
    assert changed_pod != plain_pod
    (container,) = changed_pod["containers"]
    context = container["securityContext"]
    assert not context.get("privileged") or context["allowPrivilegeEscalation"], "it is refused"
