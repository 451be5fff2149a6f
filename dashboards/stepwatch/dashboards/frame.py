"""The common start for every dashboard: address, variables and links."""

from __future__ import annotations

from stepwatch.signals.names import JOB, JOB_CLASS, JOB_INFO, NODE, NODE_CPU_BUSY

from .panels import SOURCE, link
from .queries import JOB_VARIABLE
from .sdk import builders, dashboard
from .thresholds import Thresholds

TAG = "stepwatch"
"""Tag on every dashboard; the dashboard menu lists those with it."""

CLASS_VARIABLE, NODE_VARIABLE = "class", "node"
JOBS_OF_CLASSES = f'label_values({JOB_INFO.name}{{{JOB_CLASS}=~"${CLASS_VARIABLE}"}}, {JOB})'
CLASSES = f"label_values({JOB_INFO.name}, {JOB_CLASS})"
NODES = f"label_values({NODE_CPU_BUSY.name}, {NODE})"


def page(title: str, uid: str, description: str, thresholds: Thresholds) -> builders.Dashboard:
    """Return an empty dashboard for the last hour, with its data source and links."""
    return (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["training", TAG])
        .readonly()
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(_source())
        .link(_dashboards())
        .link(link("Collector", f"{thresholds.page}/"))
        .link(link("Nodes", f"{thresholds.page}/nodes"))
    )


def choice(name: str, label: str, query: str, several: bool = False) -> builders.QueryVariable:
    """Return a variable with a label's values; with `several`, all are selected initially."""
    chosen = (
        builders.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .definition(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(several)
        .include_all(several)
    )
    every = dashboard.VariableOption(selected=True, text="All", value="$__all")
    return chosen.current(every) if several else chosen


def of_jobs(built: builders.Dashboard) -> builders.Dashboard:
    """Add variables for classes and their jobs."""
    classes = choice(CLASS_VARIABLE, "Class", CLASSES, several=True)
    jobs = choice(JOB_VARIABLE, "Job", JOBS_OF_CLASSES, several=True)
    return built.with_variable(classes).with_variable(jobs)


def _source() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _dashboards() -> builders.DashboardLink:
    return (
        builders.DashboardLink("Dashboards")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .keep_time(True)
    )
