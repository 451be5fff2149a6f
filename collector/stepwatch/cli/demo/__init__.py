"""`stepwatch demo`: trainer, agent and collector on one machine, one injected fault, a verdict."""
