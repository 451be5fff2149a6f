"""Who receives which alert: the configuration of Alertmanager, from a site file."""
