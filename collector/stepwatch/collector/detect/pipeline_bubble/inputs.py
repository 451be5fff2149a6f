"""Inputs for the pipeline-bubble detector."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from stepwatch.collector.analysis.stage_change import GrownStage, grown_stages
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.rare_stages import rare_stages
from stepwatch.signals.arrays import SmallIntegers

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a stage that limits the pipeline, or a schedule that wastes too much."""
    attempt, window = context.attempt, context.window
    if not context.compares_ranks:
        return []
    baseline = context.baseline.work_of(len(window.stage))
    ideal = (
        None
        if attempt.lifecycle.schedule is None
        else attempt.lifecycle.schedule.ideal_bubble_ratio
    )
    lasting = context.once(grown)
    rare, limits = context.once(rare_stages), context.thresholds(detector.LIMITS)
    findings = detector.detect(window, baseline, ideal, limits, lasting, rare)
    nodes = attempt.ranks.node_of
    return [context.dated(with_node(finding, window.stage, nodes)) for finding in findings]


def grown(context: DetectionContext) -> list[GrownStage]:
    """Return the stages that are slower than before, according to ten minutes."""
    if context.course is None:
        return []
    return grown_stages(context.course, context.window.stage)


def with_node(finding: Finding, stage: SmallIntegers, nodes: Mapping[int, str]) -> Finding:
    """Return the finding, with the node if it runs all ranks of these stages and no others."""
    named = np.isin(stage, [int(number) for number in re.findall(r"\d+", finding.subject)])
    stage_nodes = {nodes.get(rank, "") for rank in np.flatnonzero(named).tolist()}
    elsewhere = {nodes.get(rank, "") for rank in np.flatnonzero(~named).tolist()}
    if len(stage_nodes) != 1 or stage_nodes & {*elsewhere, ""}:
        return finding
    (node,) = stage_nodes
    return finding._replace(node=node, summary=f"{finding.summary}; all of them run on {node}")
