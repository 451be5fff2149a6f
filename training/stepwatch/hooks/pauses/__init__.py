"""Recognises evaluations and saves, which interrupt training, from outside and while they last."""
