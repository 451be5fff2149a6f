"""SLOs of jobs as text, for every verb that shows them."""
