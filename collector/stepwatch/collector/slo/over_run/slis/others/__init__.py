"""Network, learning, money, and telemetry itself."""
