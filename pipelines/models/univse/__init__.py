"""UniVSE (Wu et al. 2019): sentences and their components in one space with images and their regions."""
