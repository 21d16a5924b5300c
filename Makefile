# `make negatives` needs nothing but Python 3.11 or later and a network to install from. `make help` lists the rest.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
TESTED := tests/constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(TESTED)

CAPTIONS ?= pipelines/sample/captions.json
OUT ?= outputs/sample
ARGS ?=
FLICKR8K ?=
GLOVE ?=
SEEDS ?= 1
DRAWN ?= --seeds 3 --joint 128 --set word_dim=100 --batch-size 64 --epochs 10 --set decay_every=8 --set warm_up=5 \
	--learning-rate 3e-3 --set average=0.98 --set select=attacked --threads 1
SEEN := noun numeral relation shuffle preposition verb attribute swap_attribute
UNIFORM := uniform_noun uniform_attribute
CLIP_SEEDS ?= 1
SMALL ?= --joint 256 --epochs 8 --set decay_every=6
WORDNET ?= /usr/share/wordnet
MODEL ?= outputs/cloze.npz

.DEFAULT_GOAL := help
.PHONY: help setup negatives published train clip reproduce compare test consumers lint type docs pictures golden bench scale faults parser wordnet reference cloze clean

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "negcap needs Python >= 3.11 (make PYTHON=/path/to/python3.11 …)" >&2; exit 2; }
	"$(PYTHON)" -m venv $(VENV)

# Stamps: what is installed is installed again only when pyproject.toml or the tested versions have changed.
$(VENV)/installed: pyproject.toml $(TESTED) | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml $(TESTED) | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $(VENV)/installed $@

setup: $(VENV)/installed-dev ## a virtualenv in .venv with all that development needs

negatives: $(VENV)/installed ## negatives of the sample; of your captions: CAPTIONS=path OUT=outputs/name [ARGS="--seed 1"]
	$(BIN)/negcap build "$(CAPTIONS)" --output "$(OUT)" $(ARGS)

$(VENV)/installed-publish: pyproject.toml $(TESTED) | $(BIN)/python
	$(PIP) --editable '.[publish]'
	@touch $@

published: $(VENV)/installed-publish ## a test set of the sample, refined, in outputs/published: data, card and Croissant
	$(BIN)/negcap build pipelines/sample/captions.json --output outputs/benchmark --preset benchmark --quiet
	$(BIN)/negcap refine outputs/benchmark --quiet
	$(BIN)/negcap publish outputs/benchmark --format huggingface --license CC0-1.0 --refined --output outputs/published \
		--quiet --overwrite

$(VENV)/installed-train: pyproject.toml $(TESTED) | $(BIN)/python
	$(PIP) --editable '.[train]'
	@touch $(VENV)/installed $@

train: $(VENV)/installed-train ## draw scenes, make negatives, judge them, train and compare: needs no data, minutes
	$(BIN)/negcap scenes --output outputs/scenes --images 1600
	$(BIN)/negcap build --output outputs/scenes --set lexicon=own
	$(BIN)/negcap judge outputs/scenes --n 1
	$(BIN)/negcap train outputs/scenes --output outputs/scenes/models --model vse++ --model vse-c $(DRAWN)

$(VENV)/installed-score: pyproject.toml $(TESTED) | $(BIN)/python
	$(PIP) --editable '.[score,features]'
	@touch $@

clip: $(VENV)/installed-score ## tiny CLIPs of drawn scenes with and without negatives: needs no data [CLIP_SEEDS=1]
	$(BIN)/negcap scenes --output outputs/clip-pictures --images 6000 --seed 11
	$(BIN)/negcap build --output outputs/clip-pictures --set lexicon=own $(UNIFORM:%=--operator %)
	$(BIN)/negcap finetune outputs/clip-pictures --images outputs/clip-pictures/images --output outputs/clip-base \
		--objective infonce --epochs 6 --learning-rate 1e-3
	$(BIN)/negcap scenes --output outputs/clip-scenes --images 1600
	$(BIN)/negcap build --output outputs/clip-scenes --set lexicon=own $(SEEN:%=--operator %)
	$(BIN)/negcap refine outputs/clip-scenes
	for seed in $$(seq 0 $$(($(CLIP_SEEDS) - 1))); do for objective in infonce negclip ce-clip; do \
		$(BIN)/negcap finetune outputs/clip-pictures --images outputs/clip-pictures/images --model hf:outputs/clip-base \
		--output outputs/clip-$$objective-$$seed --objective $$objective --seed $$seed --epochs 14 --learning-rate 1e-3 \
		$(UNIFORM:%=--negative-operator %) || exit; done; done
	$(BIN)/negcap score outputs/clip-scenes --images outputs/clip-scenes/images --split test --refined \
		--model hf:outputs/clip-base $$(for seed in $$(seq 0 $$(($(CLIP_SEEDS) - 1))); do \
		for objective in infonce negclip ce-clip; do echo --model hf:outputs/clip-$$objective-$$seed; done; done)

reproduce: $(VENV)/installed-train ## tables of VSE-C, UniVSE, MHA-D, Augmented VSE, order-embeddings: FLICKR8K=folder [GLOVE=file SEEDS=3 PAGE=file FULL=1 for trainings to the end ARGS="--part univse"]
	@test -n "$(FLICKR8K)" || { echo "make reproduce needs FLICKR8K=folder with {train,dev}_caps.txt and _ims.npy" >&2; exit 2; }
	$(BIN)/python -m negcap.pipelines.models.papers "$(FLICKR8K)" --output outputs/papers$(if $(FULL),-trained) \
		$(if $(FULL),--size trained --seeds 3 --limit 1000,--seeds $(SEEDS)) \
		$(if $(GLOVE),--vectors "$(GLOVE)") $(if $(PAGE),--page "$(PAGE)") $(ARGS)

compare: $(VENV)/installed-train ## VSE, VSE++ and VSE-C on well-made negatives: FLICKR8K=folder [SEEDS=3] [SMALL= for the full size]
	@test -n "$(FLICKR8K)" || { echo "make compare needs FLICKR8K=folder with {train,dev}_caps.txt and _ims.npy" >&2; exit 2; }
	$(BIN)/negcap build "$(FLICKR8K)" --output outputs/flickr8k --preset all --set lexicon=own
	$(BIN)/negcap features "$(FLICKR8K)" --output outputs/flickr8k
	$(BIN)/negcap train outputs/flickr8k --output outputs/flickr8k/models --split dev --seeds $(SEEDS) $(SMALL) \
		--model vse,vse++,vse-c+noun,vse-c+numeral,vse-c+relation,vse-c

# Whatever the environment says, idle threads sleep, and what pytest compiles of the tests is kept for the next time.
test: $(VENV)/installed-dev ## every test; those that need real captions skip, saying so, without them
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal $(ARGS)

consumers: ## read what is published with the programs that it is for, each in its own virtualenv [ARGS="trl mteb"]
	PYTHON="$(PYTHON)" bash .ci/consumers $(ARGS)

lint: $(VENV)/installed-dev ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy takes the package's name from the folder of the checkout: where that is no name, such as negcap-1.2, a link has one.
type: $(VENV)/installed-dev ## mypy
	@root="$(CURDIR)"; case "$(notdir $(CURDIR))" in [0-9]*|*[!A-Za-z0-9_]*) \
		root=$$(mktemp -d)/negcap && ln -s "$(CURDIR)" "$$root";; esac; \
	$(BIN)/mypy "$$root/__init__.py" "$$root/augment" "$$root/pipelines" "$$root/schemas"

docs: $(VENV)/installed-dev ## the documentation site, in build/site; strict, and nothing is loaded from a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --config-file docs/mkdocs.yml

pictures: $(VENV)/installed-dev ## the pictures of the documentation anew: of outputs/sample and, by chromium, of the demo
	$(BIN)/negcap build pipelines/sample/captions.json --output outputs/sample --quiet
	$(BIN)/python docs/picture.py outputs/sample

golden: $(VENV)/installed-dev ## write tests/golden and what the documentation shows anew; then read the diff
	$(BIN)/python -m pytest tests/test_golden.py tests/docs --update-golden

bench: $(VENV)/installed-dev ## speed and memory; on other captions: BENCH_CAPTIONS=path
	$(BIN)/python -m tests.benchmarks.bench

scale: $(VENV)/installed-dev ## ingest 200,000 and 2,000,000 records and compare memory and speed [ARGS="--build"]
	$(BIN)/python -m tests.benchmarks.scale $(ARGS)

faults: $(VENV)/installed-dev ## break builds, models and published sets in some 340 ways and complete them [ARGS="--share 0.1"]; takes minutes
	$(BIN)/python -m tests.benchmarks.faults $(ARGS)

parser: $(VENV)/installed-dev ## train the embedded parser: TREEBANKS=folder [ARGS="--captions captions.json"]
	@test -n "$(TREEBANKS)" || { echo "make parser needs TREEBANKS=folder with UD English EWT and GUM" >&2; exit 2; }
	$(BIN)/python -m negcap.pipelines.resources parser "$(TREEBANKS)" $(ARGS)

wordnet: $(VENV)/installed-dev ## build WordNet [WORDNET=folder] and concreteness from LIST=norms CAPTIONS="files" if given
	$(BIN)/python -m negcap.pipelines.resources wordnet --source "$(WORDNET)"
	@test -z "$(LIST)" || $(BIN)/python -m negcap.pipelines.resources concreteness "$(LIST)" $(CAPTIONS)

reference: $(VENV)/installed ## build the shipped reference lexicon from CAPTIONS="file" (SOURCE="what they are")
	@test -n "$(SOURCE)" || { echo 'make reference needs SOURCE="what the captions are", for its metadata' >&2; exit 2; }
	$(BIN)/negcap build "$(CAPTIONS)" --output outputs/reference --set lexicon=own
	$(BIN)/python -m negcap.pipelines.resources reference outputs/reference --source "$(SOURCE)"

cloze: $(VENV)/installed-train ## train a cloze model: CAPTIONS="sources" [MODEL=file ARGS="--continue shipped --held-out source"]
	@test "$(origin CAPTIONS)" != file || { echo 'make cloze needs CAPTIONS="sources of captions"' >&2; exit 2; }
	$(BIN)/python -m negcap.pipelines.resources cloze $(CAPTIONS) --output "$(MODEL)" $(ARGS)

clean: ## remove caches and the virtualenv; never outputs
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build negcap.egg-info
