"""Steps: what ranks report of them, when each counts, and evidence on who is slow in them."""
