"""Schemas of negatives, refined ones, positive controls, rejections, excluded words, proposals, verdicts, audits."""

import pyarrow as pa

from .fields import boolean, column, float32, float64, int32, int64, listed, schema, struct, text

POSITIVE = "positive"
FAMILIES = ("noun", "numeral", "relation", "object", "attribute", "negation", "other", POSITIVE)

EDIT = struct(
    start=int32("character offset in caption where the edited span starts, from 0"),
    end=int32("character offset where it ends (exclusive)"),
    old=text("text of the span in caption"),
    new=text("text that replaces it"),
)
EDITS = listed(EDIT)

_KEYS = dict(
    caption_id=text("key into captions"),
    image_id=text("key of the image"),
    split=text("as in captions"),
    origin=text("origin of the true caption"),
    family=text(words=FAMILIES),
    operator=text("the operator that made it"),
    caption=text("the true caption"),
)
_CHANGE = dict(
    edits=column(EDITS, "disjoint edits of caption, in order"),
    replaced=text("lemma, quantity or preposition that was replaced, both of a swap; empty if a word is added"),
    replacement=text("what replaces it, in the same form"),
    replaced_synset=text("WordNet synset of what was replaced, if it has one", nullable=True),
    replacement_synset=text("the same of the replacement", nullable=True),
)

_MEASURES = dict(
    p_true=float32(
        "estimated probability that one more caption of the image would make it true; null if it is not "
        "estimated: see What the scores mean",
        nullable=True,
    ),
    plausibility=float32(
        "log-odds of the negative to its caption in nats, by the cloze model; null if not computed", nullable=True
    ),
    p_unnatural=float32(
        "estimated probability that a rater calls it unnatural: ungrammatical, or hardly ever seen or said; "
        "comparable across operators; null if not estimated",
        nullable=True,
    ),
    p_compatible=float32(
        "estimated probability that a rater says that one photo could be rightly described by both the negative and "
        "its caption; null if not estimated",
        nullable=True,
    ),
)

NEGATIVES = schema(
    "negatives",
    7,
    negative_id=text(
        "`<caption_id>#<operator>:<k>`; k numbers the negatives of a caption and operator from 0, in sampling order"
    ),
    **_KEYS,
    draw=int32("the k of negative_id: how many negatives its operator drew of the caption before"),
    text=text("the negative caption"),
    **_CHANGE,
    **_MEASURES,
    concreteness=float32(
        "concreteness of the noun that takes the place of another, of two swapped nouns the lower one, by the shipped "
        "score, where VSE-C's threshold is 0.6; null if there is none or it has no score",
        nullable=True,
    ),
)

# Rows of negatives, selected: the same columns, so that what reads negatives can read these.
REFINED = pa.schema(NEGATIVES).with_metadata({"table": "refined", "schema_version": "7"})

POSITIVES = schema(
    "positives",
    1,
    positive_id=text("`<caption_id>#<operator>:<k>`, as in negatives"),
    **_KEYS,
    text=text("a paraphrase of the caption, true wherever the caption is, or a denial of what the image does not show"),
    **_CHANGE,
)

REASONS = {  # of rejections, and what each means
    "related_in_caption": "the new word is a synonym, hypernym or hyponym (WordNet) of a noun of the caption",
    "related_in_sibling": "the new word is a synonym, hypernym or hyponym of a noun of another caption of the image",
    "overlap_in_caption": "the new word may name the same thing as a noun of the caption",
    "overlap_in_sibling": "the new word may name the same thing as a noun of another caption of the image",
    "same_quantity": "both quantities mean the same",
    "sibling_quantity": "another caption of the image gives the new quantity",
    "preposition_overlap": "both prepositions can hold at the same time",
    "interchangeable": "the exchange does not change the meaning",
    "dangling_pronoun": "a pronoun would lose the word it refers to",
    "ungrammatical": "the sentence around the change cannot be made grammatical",
    "said_again": "the caption speaks of the same thing again, mostly in another sentence, and would contradict it",
    "unchanged": "the text would stay the same",
    "caption_says_so": "it is true according to the caption itself",
    "sibling_says_so": "it is true according to another caption of the image",
    "likely_true": "it is too likely to be true, given the image's captions",
    "compatible": "it may be true of the same photo as its caption: p_compatible is above the limit",
    "unnatural": "it reads as unnatural: p_unnatural is above the limit",
    "repeated": "the caption has the same negative already",
    "no_candidate": "the caption has nothing that the operator changes, or nothing plausible to put there",
    "too_long": "the caption, or a negative that others wrote, is too long to be parsed",
    "operator_error": "the operator failed on the caption, which is a fault of the operator",
}

REJECTIONS = schema(
    "rejections",
    8,
    **_KEYS,
    reason=text(words=tuple(REASONS)),
    text=text("the sentence that was rejected; empty if the caption is, whole, or if none could be made"),
    **_CHANGE,
    **_MEASURES,
    detail=text(
        "what decided: the word of a caption that may make it true, of what is likely_true the word that raises p_true "
        "most; of a negation before it what is taken to be absent, with a colon; of what is unnatural or compatible "
        "the limit that it does not keep, or that the words may name one thing; of a dangling_pronoun the pronouns; of "
        "a caption that is rejected whole, the rule that it breaks, the operator and its error, or that no word was "
        "drawn; else null",
        nullable=True,
    ),
    sibling_id=text("caption_id of the first other caption of the image that has this word, or says it", nullable=True),
)

EXCLUDED = schema(
    "excluded",
    1,
    kind=text("of the word, as in lexicon"),
    entry=text("a word or phrase that is plausible where it was not put in, as in lexicon"),
    reason=text(
        "why: it may be true of the image, or of the same thing as the word there, or it would be unnatural; ",
        words=("likely_true", "compatible", "unnatural"),
    ),
    places=int64(
        "in how many places of the captions of this shard; by its ratings only as far as it was rated, which more "
        "negatives per caption need more often; an unnatural one may still be made where an operator has no other"
    ),
)

_PROPOSED = dict(
    caption_id=text("key into captions"),
    image_id=text("key of the image; all its proposals are in one shard"),
    number=int32("number of the proposal among those of its caption, from 0"),
    asked=text("what was asked for, or how the set that it is from labels it; empty if nothing is said"),
    text=text("the proposed negative; where there is a problem, the first 200 characters of the answer"),
    source=text("the language model, as its server names it, or the file that the text is from"),
    prompt=text("sha256 of the prompt file; empty without a prompt"),
    temperature=float32("sampling temperature; null if it was left to the server", nullable=True),
    fingerprint=text("the server's fingerprint of the model and its settings; empty if it gives none"),
)

PROPOSALS = schema(
    "proposals",
    1,
    **_PROPOSED,
    problem=text("why there is no text to judge: malformed or refused; empty if there is one"),
)

TRUTH_VALUES = ("false", "true", "undecidable")

JUDGED = schema(
    "judged",
    2,
    **_PROPOSED,
    operator=text("what the text does to its caption, as in negatives; empty if there is no text"),
    verdict=text(
        "whether the captions make the text true (it says only what one of them says, in its words, synonyms or "
        "hypernyms), false, or do not decide it; null if it was not parsed; ",
        words=TRUTH_VALUES,
        nullable=True,
    ),
    negative_id=text("key into negatives; null if it was refused", nullable=True),
    p_true=float32("as in negatives", nullable=True),
    plausibility=float32("as in negatives, also of refused texts", nullable=True),
    reason=text("why it was refused, as in rejections, or its problem; null if kept", nullable=True),
)


ODD = ("none", "caption", "negative", "both")

VERDICTS = schema(
    "verdicts",
    1,
    negative_id=text("key into negatives"),
    caption_id=text("key into captions"),
    image_id=text("key of the image"),
    operator=text("as in negatives"),
    reading=text("blind: the pair is read without the photo; image: the negative with the photo"),
    first=text("blind: which text stood first, caption or negative; empty for image"),
    told=boolean("blind: the reader took the caption for the one a person wrote", nullable=True),
    odd=text("which texts are odd, ", words=ODD, nullable=True),
    both_true=boolean("blind: one photo could be described by both texts", nullable=True),
    false=boolean("image: the negative is false of the photo", nullable=True),
    confidence=float32("of the reader in its answers, 0 to 1; null if it gives none", nullable=True),
    reader=text("the language model, as its server names it"),
    prompt=text("sha256 of the prompt file"),
    temperature=float32("sampling temperature; null if it was left to the server", nullable=True),
    fingerprint=text("the server's fingerprint of the model and its settings; empty if it gives none"),
    problem=text("why there is no verdict: malformed, refused or no_image; empty if there is one"),
)


MEASURES = tuple(
    "captions images covered rows refused blind word_true word_negative ngram_weight words_caption words_negative "
    "characters_added edit_position corpus_count taken_out put_in exchange p_true".split()
)

AUDIT = schema(
    "audit",
    1,
    table=text("the table measured: captions, negatives, refined, positives or rejections"),
    operator=text("the operator; all: over all operators; empty: of the run as a whole"),
    measure=text(words=MEASURES),
    item=text("what is measured: a reason, baseline, word, n-gram, exchange or bin; empty if one value"),
    value=float64("a count; blind: accuracy in %; ngram_weight: a weight; p_true: a mean"),
    low=float64("lower bound of the 95 % interval of value; null if it has none", nullable=True),
    high=float64("upper bound of that interval", nullable=True),
    n=int64("number of pairs or rows that a share or mean is computed over; else null", nullable=True),
)
