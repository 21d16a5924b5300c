"""What changes a caption: pure functions over parsed captions."""
