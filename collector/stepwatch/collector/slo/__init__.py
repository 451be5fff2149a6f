"""SLIs, objectives and error budgets."""
