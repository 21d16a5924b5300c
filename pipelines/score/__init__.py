"""Score vision-language models on the captions and negatives of a run or of a published set."""
