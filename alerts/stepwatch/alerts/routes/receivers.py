"""Receivers of a site file as those of Alertmanager; secrets are read from files by Alertmanager.

Fields: https://prometheus.io/docs/alerting/latest/configuration/#receiver-integration-settings.
"""

from __future__ import annotations

from typing import Any

from .site_schema import Alerting, Email, IncidentIo, PagerDuty, Receiver, Slack, Webhook


def _template(name: str) -> str:
    return f'{{{{ template "stepwatch.{name}" . }}}}'


def receiver(name: str, given: Receiver, alerting: Alerting, *, resolved: bool) -> dict[str, Any]:
    """One entry of `receivers`; `resolved`: an alert that ended is sent, too."""
    found: dict[str, Any] = {"name": name}
    if given.pagerduty is not None:
        found["pagerduty_configs"] = [_pagerduty(given.pagerduty)]
    if given.slack is not None:
        found["slack_configs"] = [_slack(given.slack)]
    if given.email is not None:
        found["email_configs"] = [_email(given.email)]
    webhooks = [] if given.webhook is None else [_webhook(given.webhook)]
    if given.incident_io is not None:
        if alerting.at_least("0.29"):
            found["incidentio_configs"] = [_incident_io(given.incident_io)]
        else:
            webhooks.append(_incident_io_by_webhook(given.incident_io))
    if webhooks:
        found["webhook_configs"] = webhooks
    for integrations in found.values():
        if isinstance(integrations, list):
            for each in integrations:
                each["send_resolved"] = resolved
    return found


def _pagerduty(given: PagerDuty) -> dict[str, Any]:
    return {
        "routing_key_file": given.routing_key_file,
        **({} if given.url is None else {"url": given.url}),
        "description": _template("title"),
        "severity": _template("severity"),
        "class": "{{ .CommonLabels.alertname }}",
        "component": "{{ .CommonLabels.job_name }}",
        "group": "{{ .CommonLabels.job_class }}",
        "client": "stepwatch",
        "client_url": _template("dashboard"),
        "links": [
            {"href": _template("runbook"), "text": "Runbook"},
            {"href": _template("dashboard"), "text": "Dashboard"},
        ],
        "details": {
            "summary": "{{ .CommonAnnotations.summary }}",
            "description": "{{ .CommonAnnotations.description }}",
            "impact": "{{ .CommonAnnotations.impact }}",
            "first_action": "{{ .CommonAnnotations.first_action }}",
            "runbook": _template("runbook"),
            "dashboard": _template("dashboard"),
            "alerts": _template("text"),
        },
    }


def _slack(given: Slack) -> dict[str, Any]:
    return {
        "api_url_file": given.api_url_file,
        "channel": given.channel,
        "title": _template("title"),
        "title_link": _template("dashboard"),
        "text": _template("text"),
        "fallback": _template("title"),
        "color": '{{ if eq .Status "firing" }}danger{{ else }}good{{ end }}',
        "actions": [
            {"type": "button", "text": "Runbook", "url": _template("runbook")},
            {"type": "button", "text": "Dashboard", "url": _template("dashboard")},
        ],
    }


def _email(given: Email) -> dict[str, Any]:
    found: dict[str, Any] = {"to": given.to, "from": given.from_, "smarthost": given.smarthost}
    if given.auth_password_file is not None:
        found["auth_username"] = given.auth_username
        found["auth_password_file"] = given.auth_password_file
    else:
        # A relay that takes mail without a password has, as a rule, no certificate either.
        found["require_tls"] = False
    return {
        **found,
        "headers": {"Subject": _template("title")},
        "html": _template("html"),
        "text": _template("text"),
    }


def _webhook(given: Webhook) -> dict[str, Any]:
    found: dict[str, Any] = (
        {"url": given.url} if given.url_file is None else {"url_file": given.url_file}
    )
    return {**found, **_bearer(given.credentials_file)}


def _incident_io(given: IncidentIo) -> dict[str, Any]:
    return {"url": given.url, "alert_source_token_file": given.token_file}


def _incident_io_by_webhook(given: IncidentIo) -> dict[str, Any]:
    """It takes Alertmanager's own JSON with a bearer token."""
    return {"url": given.url, **_bearer(given.token_file)}


def _bearer(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    return {"http_config": {"authorization": {"type": "Bearer", "credentials_file": file}}}
