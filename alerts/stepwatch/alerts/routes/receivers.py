"""Converts a site file's receivers to Alertmanager's; Alertmanager reads secrets from files.

Fields: https://prometheus.io/docs/alerting/latest/configuration/#receiver-integration-settings.
"""

from __future__ import annotations

from typing import Any

from .site_schema import Alerting, Email, IncidentIo, PagerDuty, Receiver, Slack, Webhook


def _template(name: str) -> str:
    return f'{{{{ template "stepwatch.{name}" . }}}}'


def receiver(
    name: str, declaration: Receiver, alerting: Alerting, *, resolved: bool
) -> dict[str, Any]:
    """Return one `receivers` entry; `resolved` also sends the end of an alert."""
    entry: dict[str, Any] = {"name": name}
    if declaration.pagerduty is not None:
        entry["pagerduty_configs"] = [_pagerduty(declaration.pagerduty)]
    if declaration.slack is not None:
        entry["slack_configs"] = [_slack(declaration.slack)]
    if declaration.email is not None:
        entry["email_configs"] = [_email(declaration.email)]
    webhooks = [] if declaration.webhook is None else [_webhook(declaration.webhook)]
    if declaration.incident_io is not None:
        if alerting.at_least("0.29"):
            entry["incidentio_configs"] = [_incident_io(declaration.incident_io)]
        else:
            webhooks.append(_incident_io_by_webhook(declaration.incident_io))
    if webhooks:
        entry["webhook_configs"] = webhooks
    for integrations in entry.values():
        if isinstance(integrations, list):
            for integration in integrations:
                integration["send_resolved"] = resolved
    return entry


def _pagerduty(pagerduty: PagerDuty) -> dict[str, Any]:
    return {
        "routing_key_file": pagerduty.routing_key_file,
        **({} if pagerduty.url is None else {"url": pagerduty.url}),
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


def _slack(slack: Slack) -> dict[str, Any]:
    return {
        "api_url_file": slack.api_url_file,
        "channel": slack.channel,
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


def _email(email: Email) -> dict[str, Any]:
    fields: dict[str, Any] = {"to": email.to, "from": email.from_, "smarthost": email.smarthost}
    if email.auth_password_file is not None:
        fields["auth_username"] = email.auth_username
        fields["auth_password_file"] = email.auth_password_file
    else:
        # A mail relay without a password usually has no certificate either.
        fields["require_tls"] = False
    return {
        **fields,
        "headers": {"Subject": _template("title")},
        "html": _template("html"),
        "text": _template("text"),
    }


def _webhook(webhook: Webhook) -> dict[str, Any]:
    address: dict[str, Any] = (
        {"url": webhook.url} if webhook.url_file is None else {"url_file": webhook.url_file}
    )
    return {**address, **_bearer(webhook.credentials_file)}


def _incident_io(incident_io: IncidentIo) -> dict[str, Any]:
    return {"url": incident_io.url, "alert_source_token_file": incident_io.token_file}


def _incident_io_by_webhook(incident_io: IncidentIo) -> dict[str, Any]:
    """Return a webhook entry: it accepts Alertmanager's JSON with a bearer token."""
    return {"url": incident_io.url, **_bearer(incident_io.token_file)}


def _bearer(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    return {"http_config": {"authorization": {"type": "Bearer", "credentials_file": file}}}
