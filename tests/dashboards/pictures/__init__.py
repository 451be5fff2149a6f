"""Pictures of the dashboards, drawn from what Grafana would show of a real run's answers."""
