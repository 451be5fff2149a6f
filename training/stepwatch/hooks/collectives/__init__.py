"""A rank's collectives, observed in the way that each torch release allows."""
