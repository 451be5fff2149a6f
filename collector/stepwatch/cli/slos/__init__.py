"""Job SLOs as text, for every verb that shows them."""
