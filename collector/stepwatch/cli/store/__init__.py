"""Actions of `stepwatch store`, one module per topic."""
