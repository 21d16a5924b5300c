"""The metrics of UniVSE alone: retrieval by the weight α of the sentence, and semantic parsing with visual cues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from ..checkpoint import JsonObject
from ..data import RunTexts, component_ids
from ..device import rows_to_device
from ..evaluation import retrieval
from ..evaluation.components import AT_ONCE, QuestionCandidates, answer_accuracy, read_questions
from ..evaluation.protocols import Attacks
from ..evaluation.retrieval import EmbeddedSplit
from ..ranking import count_outranking
from ..similarities import COSINE
from ..vocabulary import UNKNOWN_ID
from .model import UniVSE, blend

ALPHAS = tuple(n / 10 for n in range(11))  # 0, 0.1, …, 1


def alpha_curve(model: UniVSE, split: EmbeddedSplit, attacks: Attacks) -> dict[str, dict[str, float]]:
    """By α from "0.0" to "1.0": rsum without attack, and image-to-text R@1 under each of UniVSE's attacks, in %. The
    entry `attacked` is the sum of R@1, R@5 and R@10 over these attacks. Every text is embedded only once.
    """
    images = split.image_vectors
    texts = split.corpus.texts
    size = split.image_vectors.shape[1]

    def joined_parts(texts: RunTexts, rows: Tensor) -> Tensor:
        """The parts of which `blended` makes vectors, (B, 2 d + 1): sentence vector, component vector, and 1 for texts
        with components, else 0.
        """
        parts = model.sentences_and_components(texts, rows)
        return torch.cat([parts.sentences, parts.components, parts.present[:, None].to(parts.sentences.dtype)], 1)

    def blended(joined: Tensor, alpha: float) -> Tensor:
        """The caption vectors u_cap (B, d) of joined parts (B, 2 d + 1)."""
        return blend(joined[:, :size], joined[:, size : 2 * size], joined[:, -1] > 0, alpha)

    captions = retrieval.embed_sentences(joined_parts, texts, split.captions)
    image_of_caption = split.image_of_caption.to(images.device)
    plain = {alpha: retrieval.rank(images, blended(captions, alpha), image_of_caption) for alpha in ALPHAS}
    curve: dict[float, dict[str, float]] = {}
    for alpha, ranks in plain.items():
        curve[alpha] = {"rsum": retrieval.retrieval_metrics(ranks)["rsum"], "attacked": 0.0}
    for name, rows in attacks.items():
        if not name.startswith("univse:"):
            continue
        # by α, how many negatives are above the best true caption of each image
        outranking = {alpha: torch.zeros_like(plain[alpha].images) for alpha in ALPHAS}
        for _, vectors in retrieval.embed_in_batches(joined_parts, texts, texts.captions + rows):
            for alpha, ranks in plain.items():
                negatives = blended(vectors, alpha)
                outranking[alpha] += count_outranking(negatives, images, ranks.best, COSINE.by_text)
        for alpha, ranks in plain.items():
            attacked = retrieval.recall_metrics(ranks.images + outranking[alpha])
            curve[alpha][f"{name.removeprefix('univse:')} R@1"] = attacked["R@1"]
            curve[alpha]["attacked"] += sum(attacked[f"R@{k}"] for k in retrieval.TOP)
    return {f"{alpha:.1f}": values for alpha, values in curve.items()}


class _ComponentScorer:
    """Scores of components with images, (m,), by a UniVSE model.

    words: (m, k) word ids, (attribute, noun) for k = 2 or (subject, relation, object) for k = 3. images: (m,) the image
    of each component, an index in the split.
    """

    def __init__(self, model: UniVSE, split: EmbeddedSplit) -> None:
        self.model = model
        self.images = split.image_vectors
        features = split.corpus.features.values
        with torch.inference_mode():
            regions = []
            for rows in split.image_rows.split(retrieval.images_at_once(features)):
                regions.append(model.image.with_regions(rows_to_device(features, rows, self.images.device)).regions)
            self.regions = torch.cat(regions)

    def _in_best_region(self, vectors: Tensor, images: Tensor) -> Tensor:
        """The highest similarity (m,) of each vector (m, d) to a region of its image."""
        return torch.bmm(self.regions[images], vectors[:, :, None])[:, :, 0].amax(1)

    def attributed_nouns(self, words: Tensor, images: Tensor) -> Tensor:
        """The highest similarity of an attributed noun to a region of the image."""
        return self._in_best_region(self.model.word_encoder(words[:, 1], words[:, 0]), images)

    def attributes_alone(self, words: Tensor, images: Tensor) -> Tensor:
        """The highest similarity of an attributed noun, minus that of the noun alone: what the attribute adds."""
        nouns = self._in_best_region(self.model.word_encoder(words[:, 1]), images)
        return self.attributed_nouns(words, images) - nouns

    def triples(self, words: Tensor, images: Tensor) -> Tensor:
        """The similarity of a triple to the image."""
        return (self.images[images] * self.model.triples(words)).sum(1)


def parsing_accuracy(model: UniVSE, split: EmbeddedSplit, graphs: Sequence[JsonObject]) -> JsonObject:
    """How often, in %, the image decides correctly which nouns an attribute or a relation belongs to (Table 4).

    `_ComponentScorer` scores the candidates. graphs: the rows of the table components for the captions of the split.
    """
    vocabulary = split.corpus.vocabulary
    scorer = _ComponentScorer(model, split)
    scores = {
        "attribute": scorer.attributed_nouns,
        "attribute alone": scorer.attributes_alone,
        "relation": scorer.triples,
    }

    @cache
    def known(name: str) -> bool:
        """Whether the model has a word for the name of a component."""
        return component_ids(vocabulary, [name])[0] != UNKNOWN_ID

    questions = read_questions(graphs, split.image_of_caption.tolist(), known)
    device = split.image_vectors.device
    accuracies = {}
    for name, score in scores.items():
        asked = questions.get(name.split()[0], [])  # "attribute alone" has the questions of "attribute"
        if asked:
            candidates = QuestionCandidates.of(asked)
            # (m, k): the candidates are of one kind, and so have as many words
            ids = torch.tensor([component_ids(vocabulary, words) for words in candidates.words], device=device)
            parts = zip(ids.split(AT_ONCE), candidates.image.to(device).split(AT_ONCE), strict=True)
            with torch.inference_mode():
                accuracies[name] = answer_accuracy(asked, torch.cat([score(words, images) for words, images in parts]))
    return accuracies
