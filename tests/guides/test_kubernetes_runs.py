"""The containers of the manifests start, answer their probes, and find each other."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from stepwatch.cli.processes import Processes
from stepwatch.signals import places
from tests.guides import manifests
from tests.guides.manifests import COLLECTOR, Manifest, everything, values_below
from tests.guides.pages import parse_options
from tests.ports import free_port
from tests.postgresql import USER, PostgresqlServer
from tests.waiting import until

AGENTS, READERS, ADMINS = "tokens-of-the-agents", "tokens-of-the-readers", "tokens-of-the-admins"
MOUNTED = {
    "/etc/stepwatch/tokens/ingest": AGENTS,
    "/etc/stepwatch/tokens/read": READERS,
    "/etc/stepwatch/tokens/admin": ADMINS,
    "/etc/stepwatch/collector/token": AGENTS,
    "/etc/stepwatch/readers/token": READERS,
}
"""Mount points of Secrets."""
CONTAINERFILE = COLLECTOR.parent / "Containerfile"


def container_of(workload: str) -> Manifest:
    """Return a workload's only container."""
    (container,) = manifests.the_pod(everything(), workload)["containers"]
    return dict(container)


class Cluster:
    """Runs containers as processes: volumes are folders below `folder`, ports are free ones.

    `secret` has the values of the Secret `stepwatch-postgresql`, by key.
    """

    def __init__(self, folder: Path, secret: dict[str, str], postgresql_port: int) -> None:
        self.folder = folder
        self._secret = secret
        self._postgresql_port = postgresql_port
        self._pods: list[Processes] = []
        self.collector = ""
        for place, token in MOUNTED.items():
            path = Path(f"{folder}{place}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{token}\n")
            path.chmod(0o440)

    def start(self, name: str, container: Manifest) -> str:
        """Start a container; returns the URL at which it listens."""
        port = free_port()
        pod = Processes(uuid.uuid4().hex, self.folder, self._environ(container))
        self._pods.append(pod)
        pod.start(name, *(self._word(word, port, container) for word in container["args"]))
        return f"http://127.0.0.1:{port}"

    def logs(self) -> str:
        """Return the output of all containers."""
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    def close(self) -> None:
        """End every container."""
        for pod in self._pods:
            pod.stop_all()

    def _environ(self, container: Manifest) -> dict[str, str]:
        wanted = {
            variable["name"]: variable["valueFrom"]["secretKeyRef"]["key"]
            for variable in container.get("env", [])
            if "secretKeyRef" in variable["valueFrom"]
        }
        values = {name: self._secret[key] for name, key in wanted.items() if key in self._secret}
        return {**values, "PGPORT": str(self._postgresql_port)}

    def _word(self, word: str, port: int, container: Manifest) -> str:
        option, equals, value = word.partition("=")
        if option == "--port":
            assert int(value) in [port["containerPort"] for port in container["ports"]]
            value = str(port)
        elif option == "--collector":
            value = self.collector
        elif value.startswith("/"):
            value = f"{self.folder}{value}"
        return option + equals + value.replace("$(NODE)", "node-1")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    server = PostgresqlServer()
    server.start()
    database = server.new_database().rsplit("/", 1)[1]
    secret = {"host": "127.0.0.1", "user": USER, "password": "not-shown", "database": database}
    new_cluster = Cluster(tmp_path, secret, server.port)
    yield new_cluster
    new_cluster.close()
    server.remove()


def probe_until_good(url: str, container: Manifest) -> None:
    """Send the kubelet's probes until each succeeds."""
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        path = container[probe]["httpGet"]["path"]

        def good(path: str = path) -> bool:
            try:
                return httpx.get(url + path, timeout=10.0).status_code == 200
            except httpx.HTTPError:
                return False

        until(f"{url}{path} to be good", good)


def test_an_agent_and_two_collectors_on_postgresql_are_ready(cluster: Cluster) -> None:
    collector, agent = container_of("stepwatch-collector"), container_of("stepwatch-agent")
    urls = [cluster.start(f"collector-{number}", collector) for number in range(2)]
    for url in urls:
        probe_until_good(url, collector)
    cluster.collector = urls[0]
    url = cluster.start("agent", agent)
    probe_until_good(url, agent)
    assert httpx.get(f"{url}/readyz").text.splitlines()[0] == "ready"
    for place, token in ((url, READERS), (urls[0], READERS), (urls[1], ADMINS)):
        assert httpx.get(f"{place}/metrics").status_code == 401
        headers = {"authorization": f"Bearer {token}"}
        shown = httpx.get(f"{place}/metrics", headers=headers)
        assert shown.status_code == 200 and "stepwatch_" in shown.text
    for token in (AGENTS, READERS, ADMINS, "not-shown"):
        assert token not in cluster.logs()


def test_their_options_exist_and_their_places_are_mounted() -> None:
    agent, collector = container_of("stepwatch-agent"), container_of("stepwatch-collector")
    for container in (agent, collector):
        options = parse_options(container["args"])
        assert not places.is_loopback(options.host), "a kubelet asks the pod's address"
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        read = [word.split("=", 1)[1] for word in container["args"] if "=/" in word]
        assert read and all(
            any(Path(path).is_relative_to(mount) for mount in mounts) for path in read
        )
        assert {path for path in read if "token" in path} <= MOUNTED.keys()
        (port,) = container["ports"]
        assert port["containerPort"] == options.port
    written = SimpleNamespace(**{mount["name"]: mount for mount in agent["volumeMounts"]})
    assert not {"readOnly"} & {*written.spool, *written.rings}


def test_the_image_has_the_program_its_extras_and_its_ports() -> None:
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    assert re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE) == ['["stepwatch"]']
    (exposed,) = re.findall(r"^EXPOSE (.*)$", text, re.MULTILINE)
    assert set(map(int, exposed.split())) == set(values_below(everything(), "containerPort")) - {
        5432
    }
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases and all(":" in base and not base.endswith(":latest") for base in bases)
    (user,) = re.findall(r"^USER (\d+):\d+$", text, re.MULTILINE)
    pod = manifests.the_pod(everything(), "stepwatch-collector")
    assert pod["securityContext"]["runAsUser"] == int(user)
    (extras,) = re.findall(r"'\.\[(.*)\]'", text)
    assert {"agent", "collector", "postgresql"} <= set(extras.split(","))
