"""The page of nodes in a real browser, over a real collector process."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser import Visitor
from tests.collector.made import body
from tests.collector.nodes.sightings import DISK_SLOW, XID_79, just_now
from tests.collector.process import Process

PATIENCE_MS = 60_000


def test_all_nodes_then_one(collector: Process, visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{collector.url}/nodes")
    expect(page.locator("#empty")).to_be_visible(timeout=PATIENCE_MS)
    facts = {"gpu-1": [DISK_SLOW], "gpu-2": [], "gpu-3": [XID_79], "gpu-4": []}
    collector.send(body([just_now(name, *node_facts) for name, node_facts in facts.items()]))
    rows = page.locator("#nodes tbody tr")
    expect(rows).to_have_count(4, timeout=PATIENCE_MS)
    expect(page.locator("#empty")).to_be_hidden()
    assert [row.split("\t")[0] for row in rows.all_inner_texts()] == [
        *("gpu-3", "gpu-1", "gpu-2", "gpu-4")
    ], "the worst first"
    expect(rows.first).to_contain_text("XID 79")
    expect(rows.first).to_contain_text("reboot")
    page.get_by_role("link", name="gpu-3").click()
    expect(page.locator("#title")).to_have_text("Node gpu-3", timeout=PATIENCE_MS)
    expect(page.locator("#history tbody tr")).to_contain_text(["Xid 79: off the bus"])
    expect(page.locator("#parts tbody tr")).to_contain_text(["0000:3b:00.0"])


def test_many_at_once_stand_above_all(collector: Process, visitor: Visitor) -> None:
    collector.send(body([just_now(f"gpu-{number}", XID_79) for number in range(4)]))
    visitor.page.goto(f"{collector.url}/nodes")
    many = visitor.page.locator("#together .incident")
    expect(many).to_contain_text("many at once: 4 of 4 nodes have XID 79", timeout=PATIENCE_MS)
    expect(many).to_contain_text("gpu-0, gpu-1, gpu-2, gpu-3")
    expect(visitor.page.locator("#nodes tbody")).not_to_contain_text("reboot")


def test_a_failed_node_is_shown_wherever_its_name_stands_in_a_large_fleet(
    collector: Process, visitor: Visitor
) -> None:
    names = [f"gpu-{number:03}" for number in range(500)]
    collector.send(body([*(just_now(name) for name in names[:250])]))
    collector.send(body([*(just_now(name) for name in names[250:]), just_now("last", XID_79)]))
    visitor.page.goto(f"{collector.url}/nodes")
    rows = visitor.page.locator("#nodes tbody tr")
    expect(rows.first).to_contain_text("last", timeout=PATIENCE_MS)
    expect(rows).to_have_count(500)
    expect(visitor.page.locator("#summary")).to_contain_text("the worst 500 are shown")
