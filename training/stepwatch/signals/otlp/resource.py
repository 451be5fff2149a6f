"""The resource of a signal: what stepwatch knows, and what the environment adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.resources import OTELResourceDetector, Resource


def resource_of(attributes: Mapping[str, Any]) -> Resource:
    """Return `attributes`, with those in OTEL_RESOURCE_ATTRIBUTES that they do not name."""
    return OTELResourceDetector().detect().merge(Resource(dict(attributes)))
