"""Access to a collector: options for tokens and the certificate."""
