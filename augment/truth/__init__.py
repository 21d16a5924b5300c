"""Truth: is a candidate really false of the image?"""
