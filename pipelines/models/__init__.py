"""PyTorch models trained on a run's captions and image features: visual-semantic embeddings and a captioner; and other
people's language models, which score negatives (`scorer`).

This folder holds the code that all models share: settings, vocabulary, a run's tables as tensors (`data`), batches of
them with negatives (`batches`), encoders, losses, checkpoints, and `fit`, the training loop of all of them; and the
models that are one file each, `dual` and `mhad`. A folder of the following list may import from this one and from the
folders listed before it:

    evaluation   retrieval metrics, attacks by negatives, retrieval by components
    univse       UniVSE: model, losses, sampled components, its own metrics
    trainer      the registry of models, and the verbs train, evaluate, compare, similarity and picture
    captioner    the conditional GAN that writes captions, and the verbs captioner and caption
"""
