"""`negcap demo`: a page on this machine that makes negatives of the captions that a visitor types."""

from .server import Demo, DemoConfig, serve

__all__ = ["Demo", "DemoConfig", "serve"]
