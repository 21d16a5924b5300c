"""Caption files of data sets. The function of a format yields a source's captions in order as Records, bad records as
Rejected, and raises ValueError naming a broken file. `line` is the number of the line, or of the annotation or caption
in JSON, from 1. Where a record names no split, the file's name does (`captions_train2017.json` -> train).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice, pairwise, zip_longest
from typing import NamedTuple

from .cells import captions_in_lines
from .files import filesystem, folder_of, is_folder, join, json_items, lines, name_of, names, names_below, split_in
from .record import MAX_NUMBER, Cell, ReadOptions, Record, Rejected, excerpt, is_image_name, reject
from .table import captions_of
from .truth import only_true, values_of

Records = Iterator[Record | Rejected]
COCO = "complete COCO annotation JSON"
CAPTIONS_PER_IMAGE = 5
DETAIL = 300  # characters, at most, of names in a detail
VSEPP_LINES = "VSE++ captions, five lines per image"
VSEPP = re.compile(r"(?P<split>.+)_caps\.txt(?:\.(?:gz|bz2|xz))?")
VSEPP_OTHER = re.compile(r"(?P<split>.+)_caps\.(?P<language>[a-z]{2})\.tsv(?:\.(?:gz|bz2|xz))?")
MULTI30K = re.compile(r"(?P<split>.+?)(?:\.(?P<number>\d))?\.(?P<language>(?!gz|xz)[a-z]{2})(?:\.(?:gz|bz2|xz))?")
LINES = re.compile(r".+\.txt(?:\.(?:gz|bz2|xz|zip))?", re.IGNORECASE)
LOOKED_AT = 1000  # so many first lines of a file show whether an id stands before each caption
# The share of these lines that must begin with an id: a few may have lost theirs, and are rejected.
MOST = 0.95
# A file name of an image, maybe with `#` and a number; or an id that is no word: with a digit and `_` or `#`, or of
# many digits (`COCO_val2014_000000000042`, `-4wsuPCjDBc_5_15`, `000000000042`).
_LEADING_ID = re.compile(
    r"(?![\[<{\"'(])(?P<id>\S+\.(?:jpe?g|png|gif|webp|bmp|tiff?|mp4|avi|webm|wav|flac)|(?=\S*\d)(?=\S*[_#])[^\s,;]+?|\d{5,})"
    r"(?:#\S*)?:?\s+(?=\S)",
    re.IGNORECASE,
)
_LEADING_NUMBER = re.compile(r"(?P<id>)\s*\(?(?P<number>\d+)[.):]\s+(?=\S)")
CAPTION_FILE = re.compile(r".+\.(?:txt|caption)", re.IGNORECASE)
_SPLITS = ("train", "val", "dev", "test")


def split_order(split: str) -> tuple[int, str]:
    """A key that sorts splits: train, val, dev and test first, then others by name."""
    return (_SPLITS.index(split) if split in _SPLITS else len(_SPLITS)), split


def coco(source: str, url: str, options: ReadOptions) -> Records:
    """COCO annotation JSON: `{"images": [{id, file_name}], "annotations": [{id, image_id, caption}]}`. Lin et al. 2014,
    "Microsoft COCO: Common Objects in Context".

    An image is named by its `file_name` or else by its id. An annotation is rejected if several images have its
    image_id, so that its image is not known; if images are listed, but none has it; and if VizWiz-Captions (Gurari et
    al. 2020) calls it `is_rejected` or `is_precanned`, see `only_true`.
    """
    yield from only_true(chain.from_iterable(map(captions_of, _records_of_annotations(url, options))), options, url)


def _records_of_annotations(url: str, options: ReadOptions) -> Records:
    """A record for each annotation of COCO JSON."""
    name = name_of(url)
    split = split_in(url)
    images = _images_of_coco(url)
    seen_ids: set[int | str] = set()
    for number, annotation in enumerate(json_items(url, "annotations.item", COCO), 1):
        if not isinstance(annotation, dict):
            detail = f"an annotation must be an object, was: {annotation!r:.80}"
            yield Rejected(name, number, "not_a_record", detail, "")
            continue
        annotation_id = annotation.get("id")
        image_id = annotation.get("image_id")
        id_text = str(image_id) if isinstance(image_id, int | str) else None
        image = image_id if id_text is None else images.names.get(id_text, image_id)
        record = Record(name, number, image, annotation.get("caption"), split, options.language)
        record = record._replace(truth=values_of(annotation, options))
        if images.names and id_text is not None and id_text not in images.names:
            yield reject(record, "no_image", f"image_id must be the id of one of the images, was: {image!r:.80}")
            continue
        if isinstance(annotation_id, int | str):
            if annotation_id in seen_ids:
                detail = f"annotation id must be unique, was again: {annotation_id}"
                yield reject(record, "duplicate_caption_id", detail)
                continue
            seen_ids.add(annotation_id)
        if id_text is not None and id_text in images.other_names:
            both = f"{images.names[id_text]} and {images.other_names[id_text]}"
            detail = f"image_id must be of one image, is of several: {image_id} of {both}"
            yield reject(record, "ambiguous_image", detail[:DETAIL])
            continue
        yield record


class CocoImages(NamedTuple):
    """The names of the images of a COCO file by their ids as text: some files write ids as numbers here and as texts
    there. other_names: a second name, of ids that several images have.
    """

    names: dict[str, Cell]
    other_names: dict[str, Cell]


def _images_of_coco(url: str) -> CocoImages:
    """The images that a COCO file lists, by id."""
    images = CocoImages({}, {})
    for image in json_items(url, "images.item", COCO):
        if isinstance(image, dict) and isinstance(image.get("id"), int | str):
            id_text = str(image["id"])
            name = image.get("file_name") or image["id"]
            if images.names.setdefault(id_text, name) != name:
                images.other_names.setdefault(id_text, name)
    return images


def karpathy(source: str, url: str, options: ReadOptions) -> Records:
    """Karpathy's `dataset_*.json`: `{"images": [{filepath, filename, split, sentences: [{raw}]}]}`. Karpathy and
    Fei-Fei 2015, "Deep Visual-Semantic Alignments": the usual splits of Flickr8k, Flickr30k and COCO.
    """
    name = name_of(url)
    number = 0
    for image in json_items(url, "images.item", "complete Karpathy dataset JSON"):
        sentences = image.get("sentences") if isinstance(image, dict) else None
        if not isinstance(sentences, list) or not sentences:
            number += 1
            detail = f"an image must be an object with a list of sentences, was: {image!r:.80}"
            yield Rejected(name, number, "not_a_record", detail, "")
            continue
        folder = image.get("filepath")
        path = image.get("filename")
        if folder and path and isinstance(path, str):
            path = f"{folder}/{path}"
        for index, sentence in enumerate(sentences):
            number += 1
            text = sentence.get("raw") if isinstance(sentence, dict) else None
            yield Record(name, number, path, text, image.get("split"), options.language, index)


def flickr(source: str, url: str, options: ReadOptions) -> Records:
    """Flickr8k and Flickr30k token files (Hodosh et al. 2013, Young et al. 2014): lines `name.jpg#k⇥caption`; k numbers
    an image's captions, which need not be adjacent, and is the last part of the caption_id.
    """
    name = name_of(url)
    split = split_in(url)
    for line, content in enumerate(lines(url, "a Flickr token file of lines `name.jpg#k⇥caption`"), 1):
        key, tab, text = content.partition("\t")
        image, mark, number = key.rpartition("#")
        is_number = number.isascii() and number.isdigit() and len(number) <= len(str(MAX_NUMBER))
        if tab and mark and is_number:
            yield Record(name, line, image, text, split, options.language, int(number))
        elif content.strip():
            detail = f"a line must be `image#k⇥caption` with k in 0..{MAX_NUMBER}, was: {key!r:.80}"
            yield Rejected(name, line, "not_a_record", detail, "")


def plain_lines(source: str, url: str, options: ReadOptions) -> Records:
    """One caption per line (`captions.txt`), of an image named by the line's number; empty lines are only counted.

    Where the first lines begin with an id, as in MSVD (`x_5_15 a dog sleeps`) or Flickr8k-CN (`1.jpg#zhc#0 …`),
    that is the image's name, and all lines must have one; where they are numbered (`1. A dog`), the numbers are left
    out.

    Args:
        source: the source, which is this one file.
        url: the file.
        options: with the language of the captions.
    """
    name = name_of(url)
    split = split_in(url)
    numbered = enumerate(lines(url, "UTF-8 text with one caption per line"), 1)
    texts = ((line, text) for line, text in numbered if text.strip())
    # The file is read once, as it may be large: the lines that were looked at are kept, and used first below.
    first = list(islice(texts, LOOKED_AT))
    before = _pattern_before_captions([text for _, text in first])
    for line, text in chain(first, texts):
        image: str | None = str(line)
        if before is not None:
            match = before.match(text)
            if match is None:
                detail = f"a line must begin with an id, as the first lines do, was: {text!r:.80}"
                yield Rejected(name, line, "not_a_record", detail, excerpt(text))
                continue
            image = match["id"] or image
            text = text[match.end() :]
        yield Record(name, line, image, text, split, options.language)


def has_ids(start: bytes) -> bool:
    """Whether the lines at the start of a file begin with ids, and captions follow after spaces."""
    texts = [text for text in start.decode("utf-8", "replace").splitlines() if text.strip()]
    if len(texts) > LOOKED_AT:
        texts.pop()  # the last line may be cut off
    return _pattern_before_captions(texts) is _LEADING_ID


def _pattern_before_captions(texts: Sequence[str]) -> re.Pattern[str] | None:
    """The pattern of the id, or the number of the line, that stands before the caption in each of these lines.

    None if nothing stands there. Numbers are those of lines if they follow each other: 1. A dog, 2. A cat.
    """
    if len(texts) < 2:
        return None
    with_id = sum(1 for text in texts if _LEADING_ID.match(text))
    if with_id >= MOST * len(texts):
        return _LEADING_ID
    # If the numbers do not follow each other, they belong to the captions (`2 dogs`).
    numbers = [int(match["number"]) for match in map(_LEADING_NUMBER.match, texts) if match]
    count_up = all(after == before + 1 for before, after in pairwise(numbers))
    return _LEADING_NUMBER if len(numbers) == len(texts) and count_up else None


class ImagesWithTexts(NamedTuple):
    """The files in and below a folder of images with captions.

    texts: the caption files, by their paths in the folder. images: the paths of the images, each under its path and its
    name without suffix: {"10_dog/a": "10_dog/a.jpg", "a": "10_dog/a.jpg"}.
    """

    texts: list[str]
    images: dict[str, str]


def _images_with_texts(source: str) -> ImagesWithTexts:
    """The text files below a folder that hold captions, and its images by the names that a text file can have."""
    below = names_below(source)
    # A text belongs to the image of its own folder or, as in `images/1.jpg` and `texts/1.txt`, to the first one of its
    # name in any folder: setdefault keeps the first.
    images: dict[str, str] = {}
    for image in filter(is_image_name, below):
        stem = image.rpartition(".")[0]
        images.setdefault(stem, image)
        images.setdefault(stem.rpartition("/")[2], image)
    texts = [name for name in below if CAPTION_FILE.fullmatch(name)]
    if not images:  # CUB's texts lie apart from its images, in folders, named by numbers; a README.txt has no digit
        texts = [name for name in texts if "/" in name and re.search(r"\d", name.rpartition("/")[2])]
    return ImagesWithTexts(texts, images)


def is_folder_of_images(source: str) -> bool:
    """Whether a folder has images with a text file of the same name each, or folders of such text files alone."""
    texts, images = _images_with_texts(source)
    stems = [name.rpartition(".")[0].rpartition("/")[2] for name in texts]
    if images:
        return any(stem in images for stem in stems)
    return len(stems) > 1 and len({*stems}) == len(stems)  # images have names of their own, `caption.txt` does not


def folder_files(source: str, options: ReadOptions) -> list[str]:
    """The caption files of a folder of images with captions."""
    return [join(source, name) for name in _images_with_texts(source).texts]


def folder(source: str, url: str, options: ReadOptions) -> Records:
    """A folder of images, each with a text file of the same name, in it or in folders below: `10_dog/a.jpg` and
    `10_dog/a.txt`, as kohya's trainers and CUB-200 (Reed et al. 2016, "Learning Deep Representations of Fine-Grained
    Visual Descriptions") have them. Each line is a caption, see `captions_in_lines`.
    """
    texts, images = _images_with_texts(source)
    for name in texts:
        stem = name.rpartition(".")[0]
        image = images.get(stem) or images.get(stem.rpartition("/")[2])
        if not images:
            image = stem  # CUB's images are elsewhere, and have the same names
        folders = reversed(name.split("/")[:-1])
        split = next(filter(None, map(split_in, folders)), "")
        content = "\n".join(lines(join(source, name), "UTF-8 text with captions"))
        for number, text in enumerate(captions_in_lines(content) or [content], 1):
            record = Record(name, number, image, text, split, options.language)
            if image:
                yield record
            else:
                yield reject(record, "no_image", "no image in the folder has the name of this file")


class VseppSplit(NamedTuple):
    """The files of a split in VSE++'s layout.

    Attributes:
        captions: in English, or the language that is given.
        images: the image list, "" if there is none.
        others: by language, captions in others that are asked for.
    """

    captions: str
    images: str
    others: dict[str, str]


def vsepp_files(source: str, options: ReadOptions) -> list[str]:
    """The files of VSE++'s layout that are read: for each split, its captions, its image list if there is one, and its
    captions in other languages.
    """
    urls: list[str] = []
    for split in _files_of_vsepp_splits(source, options).values():
        urls += [split.captions, split.images, *split.others.values()]
    return [url for url in urls if url]  # "" stands for a missing image list


def vsepp(source: str, url: str, options: ReadOptions) -> Records:
    """VSE++ "precomp" captions (Faghri et al. 2018, "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives"):
    `{split}_caps.txt` with five lines per image, all of a folder or one such file. Images are named by
    `{split}_images.txt` beside it, or `{split}_{row in {split}_ims.npy, from 0}`.

    With the language `all`, also `{split}_caps.{language}.tsv` beside it, lines of an image's name, a tab and a caption
    (`name.jpg⇥Ein Hund rennt.`); `{split}_caps.txt` is then English. Captions of an image that has none in one of
    the languages are rejected (`no_language`), as models of several languages need all of them.

    Raises ValueError unless there are five lines an image, FileNotFoundError for `all` without such a file.
    """
    for split, files in _files_of_vsepp_splits(source, options).items():
        yield from _records_of_vsepp_split(split, files, options)


def _records_of_vsepp_split(split: str, files: VseppSplit, options: ReadOptions) -> Records:
    """The captions of a split, image by image: those of `files.captions`, then those in other languages."""
    captions = files.captions
    # others["de"]["1.jpg"]: the captions of an image in another language. Captions that are used are taken out, so that
    # in the end the captions of images that the split does not have are left.
    others: dict[str, dict[str, list[Record]]] = {}
    for language, file in files.others.items():
        others[language] = {}
        for other in _records_with_image_names(file, split, language):
            if isinstance(other, Rejected):
                yield other
            else:
                others[language].setdefault(str(other.image), []).append(other)

    rule = "5 lines per image"
    image_names: Iterator[str] = (f"{split}_{row}" for row in count())
    if files.images:
        rule = f"5 lines for each line of {name_of(files.images)}"
        image_names = lines(files.images, "a list of image names")
    own_language = "en" if others else options.language  # if others are read, the option is "all", see `vsepp`
    image: str | None = None
    line = 0
    for line, text in enumerate(lines(captions, VSEPP_LINES), 1):
        number = (line - 1) % CAPTIONS_PER_IMAGE
        if number == 0:
            image = next(image_names, None)
        if image is None:
            raise ValueError(f"{captions}: must have {rule}, has more")
        record = Record(name_of(captions), line, image, text, split, own_language, number)
        lacking = [language for language, by_image in others.items() if image not in by_image]
        if lacking:
            languages = " and ".join([own_language, *others])
            detail = f"image must have captions in {languages}, has none in: {lacking[0]}"
            yield reject(record, "no_language", detail)
            continue
        yield record
        if number == CAPTIONS_PER_IMAGE - 1:  # its last caption: those in other languages follow, numbered on
            of_image = chain.from_iterable(by_image.pop(image) for by_image in others.values())
            for other_number, other in enumerate(of_image, CAPTIONS_PER_IMAGE):
                yield other._replace(number=other_number)
    if line % CAPTIONS_PER_IMAGE or (files.images and next(image_names, None) is not None):
        raise ValueError(f"{captions}: must have {rule}, has only {line} lines")
    for by_image in others.values():
        for other in chain.from_iterable(by_image.values()):
            yield reject(other, "no_image", f"image must be one of the split {split}, was: {other.image}")


def _records_with_image_names(url: str, split: str, language: str) -> Records:
    """A record for each line of a file of `image⇥caption`."""
    for line, text in enumerate(lines(url, "lines of an image's name, a tab and a caption"), 1):
        image, tab, caption = text.partition("\t")
        if tab:
            yield Record(name_of(url), line, image, caption, split, language)
        else:
            yield Rejected(name_of(url), line, "not_a_record", "must be an image, a tab and a caption", excerpt(text))


def _files_of_vsepp_splits(source: str, options: ReadOptions) -> dict[str, VseppSplit]:
    """The files of each split, in reading order."""
    if is_folder(source):
        folder = source
        listed = names(source)
    else:
        folder = folder_of(source)
        listed = [name_of(source)]
    captions = {match["split"]: match[0] for match in map(VSEPP.fullmatch, listed) if match}
    if not captions:
        raise FileNotFoundError(f"{source}: has no VSE++ captions, expected files named <split>_caps.txt")
    others: dict[str, dict[str, str]] = {split: {} for split in captions}
    if options.language == "all":
        for match in filter(None, map(VSEPP_OTHER.fullmatch, sorted(names(folder)))):
            if match["split"] in others:
                others[match["split"]][match["language"]] = join(folder, match[0])
        if lacking := [split for split, files in others.items() if not files]:
            rule = f"expected {lacking[0]}_caps.<language>.tsv beside {captions[lacking[0]]}"
            raise FileNotFoundError(f"{source}: has captions in one language, {rule}")
    splits = {}
    for split in sorted(captions, key=split_order):
        images = join(folder, f"{split}_images.txt")
        fs, path = filesystem(images)
        splits[split] = VseppSplit(join(folder, captions[split]), images if fs.isfile(path) else "", others[split])
    return splits


class CaptionFile(NamedTuple):
    """A caption file of Multi30K. number: "" of task 1; images: the image list of its split, "" if there is none."""

    split: str
    language: str
    number: str
    url: str
    images: str


def multi30k_files(source: str, options: ReadOptions) -> list[str]:
    """The files of a Multi30K folder that are read: for each split, its image list, then its caption files."""
    splits = _files_of_multi30k_splits(source, options).values()
    return [url for captions in splits for url in (captions[0].images, *(file.url for file in captions))]


def multi30k(source: str, url: str, options: ReadOptions) -> Records:
    """Multi30K folders (Elliott et al. 2016, "Multi30K: Multilingual English-German Image Descriptions"): line i of
    `{split}.{1..5}.{language}.gz` (task 2) or `{split}.{language}.gz` (task 1), maybe not gzipped, is a caption of the
    image in line i (`name.jpg` or `name.jpg#k`) of `{split}_images.txt` or `{split}.txt`, there or in a folder
    `image_splits` beside it. Captions of the options' language, or `all`, image by image, by language and file. Raises
    ValueError for files with more or fewer lines, FileNotFoundError when language or image list are lacking.
    """
    for split, captions in _files_of_multi30k_splits(source, options).items():
        # All files of a split are read side by side, line i of each, so that an image's captions stand together.
        listed = lines(captions[0].images, "a list of image names")
        texts_of_files = (lines(file.url, "Multi30K captions, one per line") for file in captions)
        for line, (image, *texts) in enumerate(zip_longest(listed, *texts_of_files), 1):
            if image is None or None in texts:
                # None stands for a line that is not there. The message names the first file that goes on although the
                # image list has ended, or has ended although the list goes on.
                is_uneven = [(text is None) != (image is None) for text in texts]
                file = captions[is_uneven.index(True)]
                has = f"{line - 1}, has more" if image is None else f"has only {line - 1}"
                raise ValueError(f"{file.url}: must have as many lines as {name_of(file.images)}, {has}")
            image = re.sub(r"#\d+$", "", image)
            for number, (file, text) in enumerate(zip(captions, texts, strict=True)):
                yield Record(name_of(file.url), line, image, text, split, file.language, number)


def multi30k_captions(folder: str) -> list[CaptionFile]:
    """The caption files in a folder, in reading order; `train.en` only if its split has an image list."""
    present = names(folder)
    beside = join(folder_of(folder), "image_splits")
    try:
        lists = {name: join(beside, name) for name in names(beside)}
    except (FileNotFoundError, NotADirectoryError):
        lists = {}
    lists |= {name: join(folder, name) for name in present}
    captions = []
    for match in filter(None, map(MULTI30K.fullmatch, present)):
        split = match["split"]
        images = lists.get(f"{match['split']}_images.txt") or lists.get(f"{match['split']}.txt")
        if match["number"] or images:
            url = join(folder, match[0])
            captions.append(CaptionFile(split, match["language"], match["number"] or "", url, images or ""))
    return sorted(captions, key=lambda file: (split_order(file.split), *file))


def _files_of_multi30k_splits(source: str, options: ReadOptions) -> dict[str, list[CaptionFile]]:
    """The caption files in the chosen languages by split, in reading order."""
    if not is_folder(source):
        raise ValueError(f"{source}: a Multi30K source must be the folder of its files, was a file")
    present = multi30k_captions(source)
    splits: dict[str, list[CaptionFile]] = {}
    for file in present:
        if options.language in (file.language, "all"):
            if not file.images:
                raise FileNotFoundError(
                    f"{source}: has no {file.split}_images.txt, the list of the images of {file.split}, one per line"
                )
            splits.setdefault(file.split, []).append(file)
    if not splits:
        languages = ", ".join(sorted({file.language for file in present})) or "none"
        raise FileNotFoundError(
            f"{source}: has no Multi30K files <split>.<1..5>.{options.language}.gz, or <split>.{options.language}.gz "
            f"with <split>_images.txt; languages there: {languages}"
        )
    return splits
