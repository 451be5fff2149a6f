"""The alerts on jobs, one file for each alert or each family of them."""
