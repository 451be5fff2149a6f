"""The commands on a page, and the options of the tools in them."""
