"""`stepwatch profile`: profiles of ranks on this node, and their comparison."""
