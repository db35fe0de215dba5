"""Scenes, their texts and images, and how they become batches of tokens."""
