"""Inputs for the pipeline-bubble detector."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from stepwatch.collector.analysis.stage_change import grown_stages
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.rare_stages import rare_stages
from stepwatch.collector.detect.straggler.thresholds import LIMITS as RANKS
from stepwatch.signals.arrays import SmallIntegers

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a stage that limits the pipeline, or a schedule that wastes too much."""
    attempt, window = context.attempt, context.window
    if not context.compares_ranks:
        return []
    baseline = context.baseline.work_of(len(window.stage))
    schedule, course = attempt.lifecycle.schedule, context.course
    ideal = None if schedule is None else schedule.ideal_bubble_ratio
    lasting = [] if course is None else grown_stages(course, window.stage)
    rare, limits = context.once(rare_stages), context.thresholds(detector.LIMITS)
    of_ranks = context.thresholds(RANKS)
    findings = detector.detect(window, baseline, ideal, limits, lasting, rare, of_ranks)
    nodes = attempt.ranks.node_of
    return [context.dated(with_node(finding, window.stage, nodes)) for finding in findings]


def with_node(finding: Finding, stage: SmallIntegers, nodes: Mapping[int, str]) -> Finding:
    """Return the finding, with the node if it runs all ranks of these stages and no others."""
    named = np.isin(stage, [int(number) for number in re.findall(r"\d+", finding.subject)])
    stage_nodes = {nodes.get(rank, "") for rank in np.flatnonzero(named).tolist()}
    elsewhere = {nodes.get(rank, "") for rank in np.flatnonzero(~named).tolist()}
    if len(stage_nodes) != 1 or stage_nodes & {*elsewhere, ""}:
        return finding
    (node,) = stage_nodes
    return finding._replace(node=node, summary=f"{finding.summary}; all of them run on {node}")
