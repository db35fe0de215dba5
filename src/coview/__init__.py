"""coview: encoders of one scene seen through many views, and an honest measure of how they line up."""

__version__ = "0.1.0"
