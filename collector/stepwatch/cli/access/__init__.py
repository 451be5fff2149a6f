"""Who may reach a collector: tokens and certificate, as options."""
