"""An invalid site file gets one line per error: file, line, key and remedy."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from stepwatch.alerts.routes.site import PAGED, parse_site, read_site
from stepwatch.cli.main import OK, USAGE, main
from stepwatch.collector.slo import asked
from stepwatch.collector.slo.asked.site import read_objectives
from stepwatch.signals.errors import UsageError

SITE = """\
classes:
  production:
    slos: [goodput]
  research:
    slos: []
    pages: true
owners:
  - {jobs: llama-*, team: pretraining}
alerting:
  labels:
    cluster: eu-1
  receivers:
    oncall:
      pagerduty:
        routing_key_file: /secrets/pagerduty
    team:
      webhook:
        url: http://127.0.0.1:9/hook
        without_secret: true
  default: {page: oncall, ticket: team}
  dead_man: {receiver: team}
  schedules:
    nights:
      times:
        - {from: "18:00", until: "08:00"}
  routes:
    - team: pretraining
      ticket: team
      mute: [nights]
"""


def test_it_gives_classes_labels_and_routes() -> None:
    site = parse_site(SITE, "site.yaml")
    assert site.paged == ("production", "research")
    assert site.classes.labels == {"cluster": "eu-1"}
    assert site.alerting is not None
    assert site.alerting.routes[0].mute == ["nights"]


def test_a_site_that_says_nothing_of_alerts_has_the_usual() -> None:
    assert parse_site("owners: []", "site.yaml").paged == PAGED
    assert parse_site("classes: {production: {slos: [], pages: false}}", "x").paged == ()


def test_the_collector_reads_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    assert read_objectives(site=tmp_path / "site.yaml").classes["research"] == ()


BAD = [
    ("  labels:\n", "  lables:\n", 10, "alerting.lables", "did you mean 'labels'?"),
    ("    pages: true", "    pages: maybe", 6, "classes.research.pages", "write true or false"),
    ("  default:", "  oncall:\n      webhook: {url: x}\n  default:", 20, "alerting.oncall", ""),
    ("    team:\n", "    oncall:\n", 16, "", "a key that is repeated"),
    ("    cluster:", "    clus-ter:", 11, "alerting.labels.clus-ter", "letters, digits and _"),
    ("    cluster:", "    severity:", 11, "alerting.labels.severity", "another name"),
    ("routing_key_file: /secrets/pagerduty", "routing_key: hunter2", 15, "", "'routing_key_file'?"),
    ("        routing_key_file: /secrets/pagerduty", "        url: http://x", 14, "", "is missing"),
    ("/secrets/pagerduty", "hunter2", 15, "routing_key_file", "absolute path"),
    ("http://127.0.0.1:9/hook", "https://me:hunter2@x/", 18, "webhook.url", "secrets into a file"),
    ("        without_secret: true\n", "", 17, "receivers.team.webhook", "give credentials_file"),
    ("        url: http://127.0.0.1:9/hook\n        without_secret: true",
     "        url_file: /x", 18, "webhook.url_file", 'target: "0.26"'),
    ("receiver: team}", "receiver: taem}", 21, "dead_man.receiver", "did you mean 'team'?"),
    ("  dead_man: {receiver: team}\n", "", 9, "alerting.dead_man", "{receiver: heartbeat"),
    ("team: pretraining\n", "team: pretrainin\n", 27, "routes.0.team", "name it under owners"),
    ("      ticket: team\n", "", 27, "routes.0", "it has no receiver"),
    ("{page: oncall, ticket: team}", "{page: team, ticket: team}", 13, "receivers.oncall",
     "nothing is routed to it"),
    ("[nights]", "[night]", 29, "routes.0.mute", "did you mean 'nights'?"),
    ('until: "08:00"', 'until: "18:00"', 25, "times.0.until", "never ends"),
    ('from: "18:00", until: "08:00"', 'from: "00:00", until: "24:00"', 24, "schedules.nights.times",
     "never ends"),
    ('from: "18:00"', 'from: "24:00"', 25, "times.0.from", "write '00:00'"),
    ("    nights:\n", "    nights:\n      zone: Mars/Base\n", 24, "zone", "Europe/Berlin"),
    ('until: "08:00"', 'until: "8"', 25, "times.0.until", "a time of day"),
    ("  default:", '  target: "0.24"\n  default:', 20, "alerting.target", 'write such as "0.25"'),
    ("    - team: pre", "    - {page: oncall}\n    - team: pre", 28, "routes.1",
     "change the order"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "line", "key", "remedy"), BAD)
def test_a_mistake_is_one_line_with_its_place_and_remedy(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    right: str,
    wrong: str,
    line: int,
    key: str,
    remedy: str,
) -> None:
    assert right in SITE
    file = tmp_path / "site.yaml"
    file.write_text(SITE.replace(right, wrong, 1))
    assert main(["build", "routes", "--site", str(file), "--out", str(tmp_path / "out")]) == USAGE
    printed = capsys.readouterr().err.splitlines()
    (mistake,) = [
        line_printed
        for line_printed in printed
        if f"{file}:{line}: " in line_printed and key in line_printed
    ]
    assert remedy in mistake
    assert "hunter2" not in mistake
    assert not (tmp_path / "out").exists()


def test_two_schedules_that_never_end_together_are_a_mistake() -> None:
    days = '    days:\n      times: [{from: "08:00", until: "18:00"}]\n  routes:\n'
    two_schedules = SITE.replace("  routes:\n", days).replace("[nights]", "[nights, days]")
    with pytest.raises(
        UsageError, match=r"site.yaml:31: .*mute: nights, days together leave no hour out"
    ):
        parse_site(two_schedules, "site.yaml")
    parse_site(two_schedules.replace('"18:00"}]', '"17:00"}]'), "site.yaml")


def test_what_is_right_is_written(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(SITE)
    assert main(["build", "all", "--site", str(file), "--out", str(tmp_path / "out")]) == OK
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"alertmanager.yaml", "stepwatch.tmpl", "training.rules.yaml"} <= names


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["routes", "--out", "x"], "--site FILE"),
        (["all", "--site", "none.yaml"], "--out DIR"),
        (["routes", "--site", "none.yaml", "--out", "x"], "cannot be read"),
    ],
)
def test_what_is_missing_is_asked_for(
    words: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", *words]) == USAGE
    assert remedy in capsys.readouterr().err


def test_an_slo_that_does_not_exist_is_refused_as_the_collector_does(tmp_path: Path) -> None:
    text = "classes:\n  production:\n    slos: [goodputt]\n"
    with pytest.raises(UsageError, match=r"site.yaml:3: .*did you mean 'goodput'\?"):
        parse_site(text, "site.yaml")
    folder = tmp_path / "slos"
    folder.mkdir()
    shipped = resources.files(asked) / "documents" / "goodput.yaml"
    misspelt = shipped.read_text(encoding="utf-8").replace(
        "  name: goodput\n  display", "  name: goodputt\n  display"
    )
    (folder / "mine.yaml").write_text(misspelt)
    assert parse_site(text, "site.yaml", folder).paged


def test_a_key_in_the_wrong_place_is_told_where_it_belongs() -> None:
    with pytest.raises(
        UsageError, match="receivers: there is no such key here; write it under ale"
    ):
        parse_site("receivers:\n  - name: x\n", "site.yaml")
    with pytest.raises(
        UsageError, match=r"slos: there is no such key here; write it under classes\.NAME"
    ):
        parse_site("slos: [goodput]\n", "site.yaml")
    with pytest.raises(UsageError, match=r"there is no such key; did you mean 'alerting'\?"):
        parse_site("alertin: {}\n", "site.yaml")
    with pytest.raises(UsageError, match="it holds no keys; write one of classes"):
        parse_site("a line of text\n", "site.yaml")


def test_a_site_without_receivers_has_no_routes(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("owners: []")
    assert read_site(file).alerting is None
    assert main(["build", "routes", "--site", str(file), "--out", str(tmp_path)]) == USAGE


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        read_site(tmp_path / "site.yaml")
