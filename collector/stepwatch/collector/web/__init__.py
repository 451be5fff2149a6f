"""What people and programs read: API, page, `/metrics`."""
