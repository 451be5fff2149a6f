"""How fast a job goes, and what holds it up."""
