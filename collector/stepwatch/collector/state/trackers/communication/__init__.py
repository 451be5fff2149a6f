"""What ranks pass to each other, in which groups and over which links."""
