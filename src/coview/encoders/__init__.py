"""Encoders of texts and images, trained here or frozen."""
