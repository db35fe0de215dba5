"""What two joined spaces are good for: finding images by words, and naming what is in them."""
