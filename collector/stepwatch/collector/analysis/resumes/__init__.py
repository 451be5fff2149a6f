"""What a resumed attempt continues: its learning rate, and the order of its data."""
