"""References between manifests resolve, and no container may do more than it needs."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from tests.guides import manifests
from tests.guides.manifests import Manifest, everything, values_below
from tests.guides.pages import ROOT, commands

GUIDE = ROOT / "agent" / "guides" / "kubernetes.md"
FOREIGN_NAMESPACES = {"monitoring", "kube-system"}
"""Namespaces that a cluster has, or its Prometheus."""


def manifests_of_kind(kind: str) -> list[Manifest]:
    """Every object of one kind."""
    return [manifest for manifest in everything() if manifest["kind"] == kind]


def test_no_object_is_there_twice() -> None:
    keys = [manifests.key_of(manifest) for manifest in everything()]
    assert len(keys) == len(set(keys))


def test_every_namespace_is_made() -> None:
    created = {manifest["metadata"]["name"] for manifest in manifests_of_kind("Namespace")}
    used = {manifests.namespace_of(manifest) for manifest in everything()} - {""}
    named = {
        labels["kubernetes.io/metadata.name"]
        for selector in values_below(everything(), "namespaceSelector")
        for labels in [selector["matchLabels"]]
    }
    assert created == used and named <= created | FOREIGN_NAMESPACES


def test_every_secret_and_key_that_is_referred_to_is_made_by_the_guide() -> None:
    created: set[tuple[str, str, str]] = set()
    for line in commands(GUIDE):
        words = re.match(r"kubectl create secret generic (\S+) --namespace (\S+)", line)
        if words:
            keys = re.findall(r"--from-(?:literal|file)=(\w+)=", line)
            created |= {(words[2], words[1], key) for key in keys}
    used = set[tuple[str, str, str]]()
    for manifest in everything():
        where = manifests.namespace_of(manifest)
        for reference in [
            *values_below(manifest, "secretKeyRef"),
            *values_below(manifest, "credentials"),
        ]:
            if not reference.get("optional"):
                used.add((where, reference["name"], reference["key"]))
    for where, pod in manifests.pods(everything()):
        used |= {(where, *reference) for reference in mounted_secrets(pod["spec"])}
    assert used == created


def mounted_secrets(pod: Manifest) -> set[tuple[str, str]]:
    """Secret and key of each file of a Secret that the options of a pod's containers name."""
    secrets = {
        volume["name"]: volume["secret"]["secretName"]
        for volume in pod["volumes"]
        if "secret" in volume
    }
    references = set()
    for container in pod["containers"]:
        read = [Path(word.split("=", 1)[1]) for word in container.get("args", ()) if "=/" in word]
        for mount in container["volumeMounts"]:
            if mount["name"] in secrets:
                keys = [path.name for path in read if path.parent == Path(mount["mountPath"])]
                assert keys, f"nothing reads {mount['mountPath']}"
                references |= {(secrets[mount["name"]], key) for key in keys}
    return references


def test_the_quick_start_holds_no_secret_and_asks_for_no_right() -> None:
    kinds = {manifest["kind"] for manifest in everything()}
    assert not kinds & {"Secret", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    accounts = manifests_of_kind("ServiceAccount")
    names = {(manifests.namespace_of(account), account["metadata"]["name"]) for account in accounts}
    for account in accounts:
        assert account["automountServiceAccountToken"] is False
    for where, pod in manifests.pods(everything()):
        assert (where, pod["spec"]["serviceAccountName"]) in names
        assert pod["spec"]["automountServiceAccountToken"] is False


def test_every_selector_finds_pods_and_every_port_is_theirs() -> None:
    pods = manifests.pods(everything())
    for manifest in everything():
        where, spec = manifests.namespace_of(manifest), manifest.get("spec", {})
        for selector in (spec.get("selector"), spec.get("podSelector")):
            if selector:
                wanted = selector.get("matchLabels", selector)
                assert select_pods(pods, where, wanted), manifests.key_of(manifest)
    for policy in manifests_of_kind("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            wanted = policy["spec"]["podSelector"]["matchLabels"]
            check_ports(rule, select_pods(pods, manifests.namespace_of(policy), wanted))
        for rule in [*policy["spec"].get("ingress", []), *policy["spec"].get("egress", [])]:
            check_peers(rule, manifests.namespace_of(policy), pods, outgoing="to" in rule)


def select_pods(
    pods: list[tuple[str, Manifest]], namespace: str, wanted: Manifest
) -> list[Manifest]:
    """The pod templates of a namespace that carry these labels."""
    return [
        pod
        for where, pod in pods
        if where == namespace and wanted.items() <= pod["metadata"]["labels"].items()
    ]


def check_ports(rule: Manifest, pods: list[Manifest]) -> None:
    """Check that each of the pods has each port of a rule, by name or number."""
    for pod in pods:
        ports = [port for container in pod["spec"]["containers"] for port in container["ports"]]
        port_keys = {value for port in ports for value in (port["name"], port["containerPort"])}
        assert {port["port"] for port in rule["ports"]} <= port_keys


def check_peers(
    rule: Manifest, namespace: str, pods: list[tuple[str, Manifest]], *, outgoing: bool
) -> None:
    """Each peer of a rule is there, unless it is another's; its ports are those it has."""
    for peer in rule["to" if outgoing else "from"]:
        labels = peer.get("namespaceSelector", {}).get("matchLabels", {})
        where = labels.get("kubernetes.io/metadata.name", namespace)
        if where not in FOREIGN_NAMESPACES:
            peers = select_pods(pods, where, peer["podSelector"]["matchLabels"])
            assert peers, peer
            if outgoing:
                check_ports(rule, peers)


def test_probes_and_mounts_name_what_their_pod_has() -> None:
    for manifest in everything():
        if "template" not in manifest.get("spec", {}):
            continue
        spec = manifest["spec"]["template"]["spec"]
        volumes = [*spec["volumes"], *manifest["spec"].get("volumeClaimTemplates", [])]
        volume_names = {volume.get("name") or volume["metadata"]["name"] for volume in volumes}
        for container in spec["containers"]:
            ports = {port["name"] for port in container["ports"]}
            assert {probe["port"] for probe in values_below(container, "httpGet")} <= ports
            assert {mount["name"] for mount in container["volumeMounts"]} == volume_names


def test_services_and_monitors_name_ports_that_are_there() -> None:
    pods, services = manifests.pods(everything()), manifests_of_kind("Service")
    for service in services:
        targeted_pods = select_pods(
            pods, manifests.namespace_of(service), service["spec"]["selector"]
        )
        targets = [{"port": port["targetPort"]} for port in service["spec"]["ports"]]
        check_ports({"ports": targets}, targeted_pods)
    for monitor in manifests_of_kind("PodMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        targeted_pods = select_pods(pods, manifests.namespace_of(monitor), wanted)
        check_ports({"ports": monitor["spec"]["podMetricsEndpoints"]}, targeted_pods)
    for monitor in manifests_of_kind("ServiceMonitor"):
        labels = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [
            service for service in services if labels <= service["metadata"]["labels"].items()
        ]
        assert manifests.namespace_of(service) == manifests.namespace_of(monitor)
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports


def test_agents_send_to_the_service_of_the_collectors() -> None:
    (container,) = manifests.the_pod(everything(), "stepwatch-agent")["containers"]
    (url,) = [word.split("=", 1)[1] for word in container["args"] if "--collector=" in word]
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.scheme == "http"
    name, namespace, kind = parts.hostname.split(".")
    (service,) = [
        service for service in manifests_of_kind("Service") if service["metadata"]["name"] == name
    ]
    assert (manifests.namespace_of(service), kind) == (namespace, "svc")
    assert parts.port in {port["port"] for port in service["spec"]["ports"]}


def test_no_container_may_more_than_it_needs() -> None:
    for where, pod in manifests.pods(everything()):
        spec = pod["spec"]
        for container in spec["containers"]:
            context = {**spec.get("securityContext", {}), **container["securityContext"]}
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
            assert context["capabilities"]["drop"] == ["ALL"]
            assert "privileged" not in context
            assert container["resources"]["limits"]["memory"]
            assert not container["image"].endswith(":latest") and ":" in container["image"]
            if where == "stepwatch":
                assert context["runAsNonRoot"] is True and "add" not in context["capabilities"]
        if where == "stepwatch":
            assert not any("hostPath" in volume for volume in spec["volumes"])
            assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys()


def test_the_agent_has_the_capabilities_that_its_unit_of_systemd_has() -> None:
    unit = (ROOT / "agent/deploy/systemd/stepwatch-agent.service").read_text()
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    (container,) = manifests.the_pod(everything(), "stepwatch-agent")["containers"]
    added = container["securityContext"]["capabilities"]["add"]
    assert {f"CAP_{name}" for name in added} == set(line.split())
