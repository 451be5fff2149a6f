"""A receiver that records incidents as OpenTelemetry log records, over OTLP/HTTP.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwatch import signals
from stepwatch.collector.incidents.notices import RESOLVED
from stepwatch.collector.incidents.states import ALERT, UNKNOWN_NODE
from stepwatch.signals import traces
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.plain_text import plain_line

from .receivers import Answer, Outgoing, Receiver, Secret, headline, links_of

try:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
        ExportLogsServiceRequest,
        ExportLogsServiceResponse,
    )
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
    from opentelemetry.util.re import parse_env_headers

    from stepwatch.signals.otlp.resource import resource_of
except ImportError as error:
    raise ConfigurationError(
        f"incidents over OTLP need the OpenTelemetry SDK ({error}); pip install 'stepwatch[traces]'"
    ) from error

NAME = "otlp"
"""The receiver that `--otlp` adds."""
PATH = "/v1/logs"
_ANSWER_BYTES = 4096
_CONTENT = {"content-type": "application/x-protobuf"}
_TEXTS = {
    "id": "stepwatch.incident.id",
    "kind": "stepwatch.incident.kind",
    "severity": "stepwatch.incident.severity",
    "state": "stepwatch.incident.state",
    "summary": "stepwatch.incident.summary",
    "cause": "stepwatch.cause",
    "confidence": "stepwatch.confidence",
    "phase": "stepwatch.phase",
    "subject": "stepwatch.subject",
    "alert": "stepwatch.alert",
    "runbook": "stepwatch.runbook",
    "merged_into": "stepwatch.incident.merged_into",
}
_NUMBERS = {
    "since_step": traces.STEP,
    "rank": traces.RANK,
    "attempt": traces.ATTEMPT,
    "opened_at": "stepwatch.incident.opened_at",
    "resolved_at": "stepwatch.incident.resolved_at",
    "detected_after_seconds": "stepwatch.incident.detected_after",
    "slowdown_ratio": "stepwatch.slowdown",
    "throughput_lost_ratio": "stepwatch.throughput_lost",
    "device_seconds_lost": "stepwatch.device_time_lost",
}
"""Attributes by incident field; times are Unix seconds, durations seconds."""


@dataclass(frozen=True)
class OtlpLogs(Receiver):
    """Sends one log record for each transition and change of an incident.

    `headers` reads `name=value` pairs, separated by commas, as OTEL_EXPORTER_OTLP_HEADERS has
    them. `ca` is a file with the authorities (PEM) that may sign the receiver's certificate.
    """

    summarises = False
    records = True
    headers: Secret = field(default=str, repr=False)
    ca: str = ""

    def outgoing(self, key: str, document: Mapping[str, Any]) -> Outgoing:
        url = self.url().rstrip("/").removesuffix(PATH) + PATH
        headers = {**parse_env_headers(self.headers(), liberal=True), **_CONTENT}
        body = self.request(key, document).SerializeToString()
        return Outgoing(url, body, headers, _ANSWER_BYTES, self.ca)

    def request(self, key: str, document: Mapping[str, Any]) -> ExportLogsServiceRequest:
        """Return the message for one notice."""
        incident = document["incident"]
        request = ExportLogsServiceRequest()
        group = request.resource_logs.add()
        resource = resource_of(
            {
                "service.name": str(incident["job"]),
                "service.namespace": traces.SERVICE_NAMESPACE,
                traces.JOB: str(incident["job"]),
            }
        )
        group.resource.attributes.extend(_pairs(resource.attributes))
        scope = group.scope_logs.add()
        scope.scope.name, scope.scope.version = traces.SERVICE_NAMESPACE, signals.__version__
        scope.log_records.append(self._record(key, document))
        return request

    def _record(self, key: str, document: Mapping[str, Any]) -> LogRecord:
        incident, moment_ns = document["incident"], int(float(document["at"]) * NANOSECONDS)
        is_problem = document["transition"] != RESOLVED and incident.get("severity") == ALERT
        number = SeverityNumber.SEVERITY_NUMBER_ERROR if is_problem else _INFO
        record = LogRecord(
            time_unix_nano=moment_ns,
            observed_time_unix_nano=moment_ns,
            severity_number=number,
            severity_text="ERROR" if is_problem else "INFO",
            event_name=f"stepwatch.incident.{document['transition']}",
        )
        record.body.string_value = headline(incident)
        record.attributes.extend(_pairs(self._attributes(key, incident)))
        step = incident["since_step"]
        if step >= 0:
            place = str(incident["job"]), int(incident["attempt"]), int(step)
            record.trace_id = traces.trace_id(*place).to_bytes(16, "big")
            if incident["rank"] >= 0:
                span = traces.span_id(*place, int(incident["rank"]), "step")
                record.span_id = span.to_bytes(8, "big")
        return record

    def _attributes(self, key: str, incident: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record's attributes; unknown ones are omitted."""
        texts = {name: plain_line(str(incident.get(field, ""))) for field, name in _TEXTS.items()}
        numbers = {name: incident.get(field) for field, name in _NUMBERS.items()}
        node = str(incident.get("node", UNKNOWN_NODE))
        texts[traces.NODE] = "" if node == UNKNOWN_NODE else node
        pages = {f"stepwatch.{name}.url": url for name, url in links_of(incident, self.links)}
        return {
            "log.record.uid": key,
            **{name: text for name, text in {**texts, **pages}.items() if text},
            **{name: value for name, value in numbers.items() if _is_known(value)},
        }

    def takes(self, answer: Answer) -> bool:
        return super().takes(answer) and not _is_rejected(answer)

    def refuses(self, answer: Answer) -> bool:
        return super().refuses(answer) or _is_rejected(answer)


_INFO = SeverityNumber.SEVERITY_NUMBER_INFO


def from_environment(endpoint: str | None, links: str = "") -> OtlpLogs:
    """Return the receiver at the base URL `endpoint`; with None the SDK's variables name it.

    Headers and certificate come from the variables, too.
    """
    base = endpoint or _variable("ENDPOINT")
    return OtlpLogs(
        NAME, lambda: base, links, headers=lambda: _variable("HEADERS"), ca=_variable("CERTIFICATE")
    )


def _variable(name: str) -> str:
    """Return an OTLP variable's value for logs, else that for all signals."""
    general = os.environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")
    return os.environ.get(f"OTEL_EXPORTER_OTLP_LOGS_{name}") or general


def _is_known(value: float | None) -> bool:
    """Return whether an incident's number is known: unknown ranks and steps are negative."""
    return value is not None and value >= 0


def _is_rejected(answer: Answer) -> bool:
    """Return whether a successful answer rejects the record; it must not be sent again then."""
    message = ExportLogsServiceResponse()
    try:
        message.ParseFromString(answer.body)
    except DecodeError:  # some receivers answer in JSON or with nothing
        return False
    return 200 <= answer.status < 300 and message.partial_success.rejected_log_records > 0


def _pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [_pair(name, value) for name, value in attributes.items()]


def _pair(name: str, value: Any) -> KeyValue:
    pair = KeyValue(key=name)
    if isinstance(value, int):
        pair.value.int_value = value
    elif isinstance(value, float):
        pair.value.double_value = value
    else:
        pair.value.string_value = str(value)
    return pair
