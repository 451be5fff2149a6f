"""The commands that a page shows, and what is known of the tools in them."""
