"""Communication between ranks: collectives, groups and links."""
