"""What programs read of an agent over HTTP: `/metrics`, `/healthz`, `/readyz`."""
