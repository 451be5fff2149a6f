"""The fire drill: each fault through the whole chain, from rank to pager, on real servers."""
