"""One file per schema, each with the way to it and back; none changes once it is released."""
