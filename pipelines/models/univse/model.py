"""UniVSE's model: images, words, relations and sentences as unit vectors of one space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ..components import component_ids
from ..config import TrainConfig
from ..device import to_device
from ..encoders import build_encoders
from ..similarities import COSINE
from ..texts import Phrase, SceneGraphs, Texts, ragged_rows
from ..vocabulary import WordVocabulary
from .composition import Composition
from .word_encoder import WordEncoder, WordEncoderShape


class UniVSE(nn.Module):
    """An image encoder, a word encoder φ, and a GRU ψ over the vectors of φ (UniVSE, section 3).

    φ embeds nouns and attributed nouns, ψ triples and sentences. A caption's vector u_cap combines u_sent, its sentence
    by ψ, and u_comp, the composition of its components' vectors. features: the size of an image's feature vector.
    words: the size of the vocabulary. vectors: (words, word_dim) initial basic embeddings of φ, None: random.
    """

    def __init__(self, config: TrainConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__()
        self.similarity = COSINE
        self.components = config.components
        self.fixed_alpha = config.alpha
        self.composition = Composition(config.composition, config.joint, Generator().manual_seed(config.seed))
        if config.learn_alpha:
            self.alpha_logit = nn.Parameter(torch.tensor(config.alpha).logit())

        def embedding(generator: Generator) -> nn.Module:
            shape = WordEncoderShape(words, config.word_dim, config.modifier_dim, config.joint)
            return WordEncoder(shape, generator, vectors, config.tune_vectors)

        self.image, self.text = build_encoders(config, features, embedding, config.joint)

    @property
    def alpha(self) -> Tensor | float:
        """α, the weight of the sentence in a caption's vector: a learned scalar, or that of the config."""
        return self.alpha_logit.sigmoid() if hasattr(self, "alpha_logit") else self.fixed_alpha

    @property
    def alpha_value(self) -> float:
        """α as a number."""
        return self.alpha_logit.sigmoid().item() if hasattr(self, "alpha_logit") else self.fixed_alpha

    @property
    def word_encoder(self) -> WordEncoder:
        """The word encoder φ; it also is the word embedding of ψ, the text encoder."""
        assert isinstance(self.text.embedding, WordEncoder)
        return self.text.embedding

    def triples(self, words: Tensor) -> Tensor:
        """Unit vectors (n, d), by ψ, of triples (n, 3), the word ids of subject, relation and object."""
        n = len(words)
        if not n:
            return self.image.linear.weight.new_empty(0, self.image.linear.out_features)
        return self.text(words.flatten(), torch.arange(0, 3 * n + 1, 3), torch.arange(n))

    def sequences(self, texts: Texts, rows: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors, by ψ in one pass, of texts `rows` (B,) and of triples (n, 3): (B, d) and (n, d)."""
        at, _ = ragged_rows(texts.offsets, rows)
        sizes = texts.offsets[rows + 1] - texts.offsets[rows]
        sizes = torch.cat([sizes.new_zeros(1), sizes, sizes.new_full((len(triples),), 3)])
        tokens = torch.cat([texts.tokens[to_device(at, texts.tokens.device)], triples.flatten().to(texts.tokens.dtype)])
        vectors = self.text(tokens, sizes.cumsum(0), torch.arange(len(rows) + len(triples)))
        return vectors[: len(rows)], vectors[len(rows) :]

    def sentences_and_components(self, texts: Texts, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sentence vectors u_sent and component vectors u_comp of texts `rows` (B,), both (B, d), and a mask (B,).

        The mask is True for texts with components of the kinds that the model composes.
        """
        graphs = require_graphs(texts)
        triples, of_triples = graphs.triples.known_components(rows)
        words = graphs.triples.words[to_device(triples, texts.tokens.device)]
        sentences, relations = self.sequences(texts, rows, words)
        objects, of_objects = graphs.objects.known_components(rows)
        pairs, of_pairs = graphs.pairs.known_components(rows)
        device = sentences.device
        nouns = self.word_encoder(graphs.objects.words[to_device(objects, device), 0])
        attributed = graphs.pairs.words[to_device(pairs, device)]
        vectors = {"obj": nouns, "attr": self.word_encoder(attributed[:, 1], attributed[:, 0]), "rel": relations}
        owners = {"obj": of_objects, "attr": of_pairs, "rel": of_triples}
        return sentences, *self.compose(vectors, owners, len(rows))

    def compose(
        self,
        vectors: dict[str, Tensor],
        owners: dict[str, Tensor],
        captions: int,
        order: dict[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """u_comp of B captions, composed of the vectors of their components as `Composition` says.

        vectors: (m, d) per kind (obj, attr, rel). owners: (m,) per kind, the caption of each component. captions: B.
        order: (m,) per kind, see Composition. Returns (B, d), 0 for a caption without components of the kinds that the
        model composes, and a mask (B,), False for those.
        """
        owner = torch.cat([owners[kind] for kind in self.components] or [torch.empty(0, dtype=torch.long)])
        first = next(iter(vectors.values()))
        every = torch.cat([vectors[kind] for kind in self.components] or [first[:0]])
        keys = torch.cat([order[kind] for kind in self.components]) if order and self.components else None
        present = torch.zeros(captions, dtype=torch.bool)
        present[owner] = True
        return self.composition(every, owner, captions, keys), to_device(present, every.device)

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """The caption vectors u_cap (B, d) of texts `rows` (B,), see `blend`."""
        return blend(*self.sentences_and_components(texts, rows), self.alpha)

    def queries(self, vocabulary: WordVocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Unit vectors (Q, d) of Q phrases of one kind: by φ for objects and attributed objects, by ψ for triples."""
        device = self.image.linear.weight.device
        ids = torch.tensor([component_ids(vocabulary, phrase.words) for phrase in phrases], device=device)
        with torch.inference_mode():
            if ids.shape[1] == 3:
                return self.triples(ids)
            return self.word_encoder(ids[:, -1], ids[:, 0])

    def sentence_queries(self, vocabulary: WordVocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Unit vectors (Q, d) of Q phrases, each read by ψ as a sentence, the paper's other way to encode a query."""
        tokens, offsets = map(torch.from_numpy, vocabulary.encode([phrase.text for phrase in phrases]))
        with torch.inference_mode():
            return self.text(tokens.to(self.image.linear.weight.device), offsets, torch.arange(len(phrases)))


def blend(sentences: Tensor, components: Tensor, present: Tensor, alpha: Tensor | float) -> Tensor:
    """Caption vectors u_cap = Norm(α u_sent + (1 - α) u_comp), (B, d); u_sent for captions without components.

    sentences, components: u_sent and u_comp, both (B, d). present: (B,) bool, captions with components. alpha: α.
    """
    mixed = torch.where(present[:, None], alpha * sentences + (1 - alpha) * components, sentences)
    return functional.normalize(mixed, dim=-1)


def require_graphs(texts: Texts) -> SceneGraphs:
    """The scene graphs of texts. Raises ValueError if the texts have none."""
    if texts.graphs is None:
        raise ValueError("UniVSE needs components, these texts have none")
    return texts.graphs
