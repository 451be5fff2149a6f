"""A job of each trainer that records numbers, saves, is killed and resumes; and its marks."""
