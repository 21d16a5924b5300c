"""The trainings of the tables, by name: the flags of `negcap train` in which they differ."""

from __future__ import annotations

SMALL = ("--joint", "128", "--word-dim", "100", "--epochs", "6", "--learning-rate", "1e-3")
FALLING = ("--decay-every", "5")  # the learning rate of 6 epochs without a schedule of their own
FEWER = ("--train-captions", "2")  # of an image's five: what UniVSE's ablations are trained on at the small size
ONE_CORE = ("--threads", "1", "--device", "cpu")  # as two commands are run at once
FEW = ("--per-family", "1")  # negatives of attacks that a table does not show
FEWEST = (*FEWER, "--epochs", "4")  # the same for the twenty trainings of its weights
ETAS = ("0.1", "1", "2", "4", "8")
TERMS = ("comp", "obj", "attr", "rel")  # of UniVSE's loss, in the order of --weights
USUAL = ("0.5", "0.5", "0.5", "1")
FAMILY_MODELS = tuple(f"vse-c+{family}" for family in ("noun", "numeral", "relation"))
MAX = "univse+max"  # UniVSE with the sentence encoder that negcap's recipe has for the others
# The models of the parts vse-c and univse.
MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (name, ()) for name in ("vse", "vse++", "vse-c", "univse")},
    **{name: ("vse-c", ("--negative-family", name.removeprefix("vse-c+"))) for name in FAMILY_MODELS},
    MAX: ("univse", ("--bidirectional", "--pooling", "max")),
}
HOUSE_ONLY = (*FAMILY_MODELS, MAX)  # by negcap's recipe only
RECIPES = ("house", "paper")
ABLATIONS: dict[str, tuple[str, ...]] = {
    "average": (),
    "sum": ("--composition", "sum"),
    "max": ("--composition", "max"),
    "self-attention": ("--composition", "self-attention"),
    "gru": ("--composition", "gru"),
    "regions-average": ("--features", "grid", "--image-pooling", "average"),
    "regions-max": ("--features", "grid", "--image-pooling", "max"),
    "regions-max-k": ("--features", "grid", "--image-pooling", "max-k"),
    "without-comp": ("--weights", "0", *USUAL[1:]),
    "learned-alpha": ("--learn-alpha",),
    "dropped": ("--drop-components", "0.3"),
    "only-obj": ("--contrast", "obj"),
    "only-attr": ("--contrast", "attr"),
    "only-rel": ("--contrast", "rel"),
    "obj-mean": ("--reduce-obj", "mean"),
    "attr-rel-sum": ("--reduce-attr", "sum", "--reduce-rel", "sum"),
}
ONE = ("--train-captions", "1")
THREE = ("--extra", "generated")
LSTM = ("--text-encoder", "lstm")  # as in the paper
# Trainings on captions by people and generated ones, and the epochs at the small size: about 900 steps, half of them
# with the sum of hinges, as the hardest negative alone learns nothing for most of so few steps.
AUGMENTED: dict[str, tuple[tuple[str, ...], int]] = {
    "people-5": ((), 4),
    "people-5-generated-1": (("--extra", "generated_one"), 4),
    "people-5-judged-1": ((*THREE, "--judge-rank", "1"), 4),
    "people-5-lstm": (LSTM, 4),
    "people-5-generated-3-lstm": ((*THREE, *LSTM), 3),
    "people-1": (ONE, 20),
    "people-1-generated-1": ((*ONE, "--extra", "generated_one"), 10),
    "people-1-beam-1": ((*ONE, "--extra", "generated_beam"), 10),
    "people-1-generated-3": ((*ONE, *THREE), 5),
    "people-1-share-0.3": ((*ONE, *THREE, "--extra-share", "0.3"), 11),
    "people-1-judged-1": ((*ONE, *THREE, "--judge-rank", "1"), 20),
    "people-1-judged-10": ((*ONE, *THREE, "--judge-rank", "10"), 18),
}
