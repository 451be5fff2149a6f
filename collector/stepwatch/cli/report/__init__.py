"""Output of `stepwatch report`: rates, money, and the report in Markdown."""
