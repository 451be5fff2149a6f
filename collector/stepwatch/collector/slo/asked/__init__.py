"""What is asked of jobs: SLO documents, the site file, windows, and burn rates that can be."""
