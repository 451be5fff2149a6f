"""The views of a job's matrix by metric."""

from __future__ import annotations

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.web.job_view import HEATMAP_METRICS

from .planes import Planes, planes_of
from .shared import packed_planes


def _views(metric: str) -> tuple[View, View]:
    def make(job: LiveJob, verdicts: Verdicts, now: float) -> Planes:
        return planes_of(job, verdicts, now, metric)

    return View(f"matrix:{metric}", make), View(f"matrix-packed:{metric}", make, packed_planes)


_VIEWS = {metric: _views(metric) for metric in HEATMAP_METRICS}
MATRICES = {metric: own for metric, (own, _) in _VIEWS.items()}
SHARED_MATRICES = {metric: shared for metric, (_, shared) in _VIEWS.items()}
"""The same as bytes, for collectors that do not hold the job."""
