"""The agent's HTTP pages for programs: `/metrics`, `/healthz`, `/readyz`."""
