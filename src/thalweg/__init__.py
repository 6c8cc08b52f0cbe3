"""Thalweg: windowed joins of many streams whose plan keeps changing to the best one while they run."""
