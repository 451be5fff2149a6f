"""Human response to incidents, over HTTP."""

from .routes import ResponseApi, with_responses

__all__ = ["ResponseApi", "with_responses"]
