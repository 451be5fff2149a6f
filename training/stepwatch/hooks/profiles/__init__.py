"""Profiles of a few steps, made when the node's agent or an operator asks for them."""
