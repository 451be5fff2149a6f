"""What `stepwatch report` prints: rates, money, and the report in Markdown."""
