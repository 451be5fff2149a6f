"""One file per schema, each with the way to it and back; a released one does not change."""
