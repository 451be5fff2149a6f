"""One file per schema, with the migration forward and back; a released file does not change."""
