"""Pictures of the dashboards, drawn from a real run's answers as Grafana would draw them."""
