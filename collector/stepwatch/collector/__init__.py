"""The collector: receives and stores segments, computes SLIs and SLOs, and detects problems."""
