"""Trainers as users have them, under their launchers, watched in each way that stepwatch offers."""
