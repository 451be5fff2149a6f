"""Web interface for users and programs: API, page, `/metrics`."""
