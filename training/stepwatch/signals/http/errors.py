"""Why a request has no usable answer. The cause is the socket's or the TLS library's error."""

from __future__ import annotations

from stepwatch.signals.errors import StepwatchError


class HttpError(StepwatchError):
    """A request without a usable answer."""


class ConnectError(HttpError):
    """There is no connection: no such host, refused, no TLS, or late."""


class CutOffError(HttpError):
    """The connection ended during the request or its answer, or its bytes are not HTTP."""


class AnswerTimeout(HttpError):
    """The request or its answer has not ended in time."""


class AnswerError(HttpError):
    """The answer is compressed or too long."""
