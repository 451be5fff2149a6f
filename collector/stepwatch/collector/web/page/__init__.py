"""The page: files that a browser loads, and their routes."""

from .routes import page_routes

__all__ = ["page_routes"]
