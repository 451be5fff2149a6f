"""The actions of a scenario's ranks, with their times."""
