"""A captioner trained as a conditional GAN: generator, discriminator, their losses, and measures of its captions.

Dai et al., "Towards Diverse and Natural Image Descriptions via a Conditional GAN" (2017), as Chen et al. (2019) use it
to write more captions of every image; equation numbers are those of Chen et al. They need torch
(the extra `train`).
"""
