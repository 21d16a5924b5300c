"""Captions by a conditional GAN: a generator, a discriminator, their losses, and measures of what is written.

Dai et al., "Towards Diverse and Natural Image Descriptions via a Conditional GAN" (2017), as Chen et al. (2019) use it
to write more captions of every image. Needs torch (the extra `train`); nothing else of this package does.
"""
