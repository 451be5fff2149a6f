"""How attempts and jobs end, and what interruptions cost."""
