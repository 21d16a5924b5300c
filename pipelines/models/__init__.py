"""Visual-semantic embeddings and the captioner: PyTorch models trained on a run's captions and image features.

This folder holds what all of them share: configuration, vocabulary, a run's tables as tensors, encoders, losses,
sampling, checkpoints. Each folder below may import from this one and from those before it in the list:

    evaluation   retrieval metrics, attacks by negatives, retrieval by components
    univse       UniVSE: model, losses, sampled components, its own metrics and figures
    trainer      the registry of models, and the verbs train, evaluate, compare and picture
    captioner    the conditional GAN that writes captions, and the verbs captioner and assess
"""
