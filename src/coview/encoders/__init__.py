"""Encoders of texts and images, trained here or frozen."""

from coview.encoders.encoder import Encoder
from coview.encoders.frozen import load_encoder

__all__ = ["Encoder", "load_encoder"]
