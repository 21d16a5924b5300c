"""A small drawn world whose truth is known: scenes, their pictures, captions and a judge of any sentence about them."""
