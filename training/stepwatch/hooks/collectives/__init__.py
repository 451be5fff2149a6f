"""Collectives of a rank, seen where each release of torch lets one see them."""
