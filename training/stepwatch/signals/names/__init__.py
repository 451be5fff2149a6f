"""Every metric, label, alert and cause on which two parts of stepwatch must agree.

Exporters, dashboards, alert rules and runbooks take names from here and spell none themselves;
`stepwatch check` compares the generated files with this package. Each name is written in exactly
one module: all the modules' public names are names in the package.
"""

from __future__ import annotations

from . import agent, collector, jobs
from .agent import *
from .causes import *
from .collector import *
from .devices import *
from .findings import *
from .jobs import *
from .labels import *
from .metric import *

METRICS: tuple[Metric, ...] = (
    *(
        value
        for module in (jobs, collector, agent)
        for value in vars(module).values()
        if isinstance(value, Metric)
    ),
    *DEVICE_METRICS.values(),
)
"""Every metric that stepwatch exports."""
