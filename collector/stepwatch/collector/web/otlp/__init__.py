"""Job metrics over OTLP/HTTP: their names, their points, and the sending thread."""
