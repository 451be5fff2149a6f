"""One evaluation of a job, and what is known of it afterwards."""
