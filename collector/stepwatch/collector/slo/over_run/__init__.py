"""SLIs over a run as a whole, so far: a registry of files, one each or a family of one formula."""
