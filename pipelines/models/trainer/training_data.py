"""The tables of a run that an embedding model is trained on, as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..captions import read_captions, split_captions
from ..components import component_names, read_graphs
from ..config import TrainConfig
from ..corpus import encode_run
from ..device import choose_device
from ..evaluation.attacks import first_negatives
from ..evaluation.config import EvaluateConfig
from ..features import place, read_features
from ..objective import RunTables
from ..texts import Texts
from ..vocabulary import WordVocabulary, build_vocabulary
from .judged import believed, left_out
from .objectives import OBJECTIVES


@dataclass(frozen=True)
class TrainingData:
    """The data of a training. The words of texts are on the device, all other tensors on the CPU.

    vocabulary, others: of the first language, and of each further one. features: (I, …), on the device if they fit, see
    `place`. backbone: the network that computed them. image: (C,) the image index of each caption. language: (C,) the
    index of each caption's language among `languages`. train, validation: (n,) indices of captions; those to train on
    are in the first language. extra: (n,) bool, those of `train` that come from the table `extra`. attack: (P,) the
    negatives of validation captions that join the candidates if the config selects by `attacked`; attacked: (P,) their
    captions. sampler: what negatives are sampled from, see Objective. without_features: the number of images that have
    none.
    """

    texts: Texts
    vocabulary: WordVocabulary
    others: Mapping[str, WordVocabulary]
    features: Tensor
    backbone: str
    image: Tensor
    language: Tensor
    languages: tuple[str, ...]
    train: Tensor
    extra: Tensor
    validation: Tensor
    attack: Tensor
    attacked: Tensor
    sampler: Any
    without_features: int
    device: torch.device


def read_training_data(config: TrainConfig) -> TrainingData:
    """Read the tables of a run. Raises FileNotFoundError or ValueError if any is missing or unfit for training."""
    device, objective = choose_device(config.device), OBJECTIVES[config.model]
    captions = read_captions(config.run, config.extra, config.languages)
    features = read_features(config.run, captions.image_ids, config.table)
    train, validation = split_captions(
        captions, config.train_splits, config.validation_split, config.validation_images, features.available
    )
    if config.left_out:
        train = train[~left_out(captions, train, *config.left_out)]
    if config.judges:
        train = train[believed(config, captions, features, train)]
    if config.train_captions:
        extra = captions.are_extra(train)
        own = [captions.in_language(train[~extra], language) for language in captions.languages]
        train = torch.cat([*(captions.first_of_images(rows, config.train_captions) for rows in own), train[extra]])
    if len(train) < 2:
        raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
    captions.require_every_language(train, "to train on")
    captions.require_every_language(validation, "to validate on")
    names = component_names(config.run) if objective.needs_components else ()
    vocabularies = {
        language: build_vocabulary(
            (captions.texts[int(n)].as_py() for n in captions.in_language(train, language)), config.min_count, names
        )
        for language in config.languages
    }
    vocabulary, *_ = vocabularies.values()
    others = {language: vocabularies[language] for language in config.languages[1:]}
    corpus = encode_run(config.run, captions, vocabulary, config.extra, others)
    graphs = read_graphs(config.run, captions, vocabulary, device) if objective.needs_components else None
    attack = torch.empty(0, dtype=torch.long)
    if config.select == "attacked":
        wanted = corpus.of_families(config.negative_families) & corpus.made_by(config.negative_operators)
        attack = first_negatives(corpus, validation, wanted, EvaluateConfig.per_family)
        if objective.needs_components or not len(attack):
            raise ValueError("select attacked needs negatives of validation captions, and a model without components")
    if graphs and config.drop_components:
        graphs = graphs.thinned(train, config.drop_components, config.seed)
    texts = Texts(corpus.tokens.to(device), corpus.offsets, corpus.captions, graphs, corpus.language)
    return TrainingData(
        texts,
        vocabulary,
        others,
        place(features.values, device),
        features.backbone,
        captions.image,
        captions.language,
        captions.languages,
        captions.in_language(train, config.languages[0]),
        captions.are_extra(captions.in_language(train, config.languages[0])),
        validation,
        attack,
        corpus.negative_caption[attack],
        objective.sampler(config, RunTables(captions, corpus, vocabulary, texts, train)),
        int((~features.available).sum()),
        device,
    )
