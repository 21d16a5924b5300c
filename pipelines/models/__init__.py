"""PyTorch models trained on a run: visual-semantic embeddings and a captioner; and other people's CLIPs.

This folder holds what all models share: settings, vocabulary, tables as tensors (`data`), `batches`, encoders, losses,
checkpoints, and their training loop (`fit`); and the models of one file, `dual` and `mhad`. A folder imports from this
one and from those before it in this list: `evaluation` (retrieval, attacks, components as queries), `univse`, `trainer`
(the models by name; train, evaluate, compare, similarity, picture), `captioner` (the conditional GAN).
"""
