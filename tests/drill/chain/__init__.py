"""Everything between a rank and the pager, as processes of one machine."""
