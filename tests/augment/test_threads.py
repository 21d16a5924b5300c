"""Matrix products of the models run on one BLAS thread, whatever the environment says and whoever asks for them."""

import json
import os
import subprocess
import sys

# The classes whose products are watched: (module, class). Their methods may have any names.
MODELS = [("negcap.augment.cloze.surrogate", "Surrogate"), ("negcap.augment.raters", "RaterModel")]

# Run in a process of its own, which prints for each class the numbers of threads that its products ran on. Two threads
# are asked for first, as BLAS has by default on a machine with two cores: products must lower that by themselves.
PROGRAM = """
import importlib, json, sys, warnings

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_info, threadpool_limits

import negcap
from negcap.pipelines.sample import path

threads = {}


class Watched(np.ndarray):
    "Weights of a model, which note the number of BLAS threads at each matrix product with them."

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        if ufunc is np.matmul:
            numbers = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
            threads[self.model].update(numbers)
        plain = [value.view(np.ndarray) if isinstance(value, Watched) else value for value in inputs]
        if out:
            options["out"] = tuple(value.view(np.ndarray) if isinstance(value, Watched) else value for value in out)
        return getattr(ufunc, method)(*plain, **options)

    def __array_finalize__(self, other):
        self.model = getattr(other, "model", None)  # also of a part of the weights


def watched(value, model):
    if isinstance(value, list):
        return [watched(part, model) for part in value]
    if isinstance(value, np.ndarray):
        value = value.view(Watched)
        value.model = model
    return value


def watch(module, name):
    model = getattr(importlib.import_module(module), name)
    original = model.__init__

    def __init__(self, *given, **options):
        original(self, *given, **options)
        for attribute, value in list(vars(self).items()):
            setattr(self, attribute, watched(value, name))

    model.__init__ = __init__
    threads[name] = set()


for module, name in json.loads(sys.argv[1]):
    watch(module, name)
threadpool_limits(limits=2, user_api="blas")
notes = pd.DataFrame(json.loads(path().read_text("utf-8"))["annotations"])
captions = notes[notes["image_id"].isin(sorted(set(notes["image_id"]))[:3])].sort_values(["image_id", "id"])
assert len(negcap.negatives(captions[["image_id", "caption"]], lexicon="reference"))
print(json.dumps({name: sorted(numbers) for name, numbers in threads.items()}))
"""
SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def test_a_function_of_the_package_multiplies_on_one_thread():
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, json.dumps(MODELS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {name: [1] for _, name in MODELS}
