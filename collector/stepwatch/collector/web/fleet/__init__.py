"""All jobs together: fields of the job list, figures of the fleet, and search."""
