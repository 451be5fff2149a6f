"""Rings of the ranks on this node, and the processes behind them."""
