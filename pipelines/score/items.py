"""The captions and negatives of a run, or of a folder that `negcap publish` or another author wrote, as items."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...augment.rng import record_rng
from ..engine.tables import has_table
from ..tables.examples import Draws, Example, other_wordings, select
from ..tables.images import Images, abbreviate
from ..tables.questions import questions
from .config import ScoreConfig
from .published import read_published
from .test_set import Foil, Item, Quad, Question, TestSet, build


def read_test_set(source: Path, config: ScoreConfig) -> TestSet:
    """What a model is scored on: of a run if `source` has tables, else of a published set.

    Raises FileNotFoundError for a source without negatives and for missing image files (unless `skip_missing`),
    ValueError for a split or operator that there is none of, and what `select` and `read_published` raise.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such run or published set")
    if is_run(source):
        items: Iterator[Item | Quad | Question] = _of_run(source, config)
    else:
        items = read_published(source, config)
    images = None if config.images is None else Images(config.images)
    missing: dict[str, str] = {}
    found = [located for item in items if (located := _located(item, images, missing)) is not None]
    if missing and not config.skip_missing:
        names = abbreviate(missing.values())
        raise FileNotFoundError(
            f"{len(missing):,} images are not in {config.images}: {names}; --skip-missing leaves their captions out"
        )
    return build(found, len(missing))


def is_run(source: Path) -> bool:
    """Whether a source is a run, as opposed to a published set."""
    return source.is_dir() and has_table(source, "captions")


def _of_run(run: Path, config: ScoreConfig) -> Iterator[Item | Question]:
    table = "refined" if config.refined else "negatives"
    draws = Draws(config.per_caption, "first", config.seed)
    selection = select(run, config.splits, config.operators, draws, table=table)
    for examples in selection.images():
        for example in examples:
            yield Item(
                example.image_id, Path(example.image), example.text, _second(example, config.seed), _false(example)
            )
        for of, false, template in questions(examples):
            yield Question(of.image_id, Path(of.image), of.text, false, template)


def _second(example: Example, seed: int) -> str | None:
    """Another caption of the image, as format sugarcrepe++ chooses it; None if there is none."""
    others = other_wordings(example)
    return record_rng(seed, "caption2", example.caption_id).choice(others) if others else None


def _false(example: Example) -> tuple[Foil, ...]:
    return tuple(Foil(n.operator, n.family, n.text, not n.replaced) for n in example.negatives)


def _located(
    item: Item | Quad | Question, images: Images | None, missing: dict[str, str]
) -> Item | Quad | Question | None:
    """The item with the paths of its image files, or without paths if there is no folder; None if one is missing.

    missing: gets the names of missing files, by image_id.
    """
    if isinstance(item, Quad):
        (first, second) = ((image_id, _file(image_id, name, images, missing)) for image_id, name in item.images)
        return None if {first[0], second[0]} & missing.keys() else item._replace(images=(first, second))
    file = _file(item.image_id, item.file, images, missing)
    return None if item.image_id in missing else item._replace(file=file)


def _file(image_id: str, name: Path | None, images: Images | None, missing: dict[str, str]) -> Path | None:
    if images is None or name is None:
        return None
    found = images.find(str(name))
    if found is None:
        missing[image_id] = str(name)
        return None
    return images.folder / found
