"""Network, learning, cost, and telemetry itself."""
