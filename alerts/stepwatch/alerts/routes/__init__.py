"""Alert routing: the Alertmanager configuration from a site file."""
