"""Requirements for jobs: SLO documents, the site file, windows, and reachable burn rates."""
