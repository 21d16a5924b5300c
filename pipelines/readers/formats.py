"""Caption files of data sets: a function per format yields a source's captions in order as Records, what is none as
Rejected, and raises ValueError naming a broken file. `line` is the number of the line, or of the annotation or caption
in JSON, from 1. Where none names a split, it is in the file's name (`captions_train2017.json` -> train).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count, zip_longest
from typing import NamedTuple

from .files import filesystem, folder_of, is_folder, join, json_items, lines, name_of, names, split_in
from .record import MAX_NUMBER, ReadOptions, Record, Rejected, excerpt, reject
from .truth import only_true, values_of

Records = Iterator[Record | Rejected]
CAPTIONS_PER_IMAGE = 5
VSEPP_LINES = "VSE++ captions, five lines per image"
VSEPP = re.compile(r"(?P<split>.+)_caps\.txt(?:\.(?:gz|bz2|xz))?")
VSEPP_OTHER = re.compile(r"(?P<split>.+)_caps\.(?P<language>[a-z]{2})\.tsv(?:\.(?:gz|bz2|xz))?")
MULTI30K = re.compile(r"(?P<split>.+?)(?:\.(?P<number>\d))?\.(?P<language>(?!gz|xz)[a-z]{2})(?:\.(?:gz|bz2|xz))?")
LINES = re.compile(r".+\.txt(?:\.(?:gz|bz2|xz|zip))?", re.IGNORECASE)
_SPLITS = ("train", "val", "dev", "test")


def split_order(split: str) -> tuple[int, str]:
    """A key that sorts splits: train, val, dev and test first, then others by name."""
    return (_SPLITS.index(split) if split in _SPLITS else len(_SPLITS)), split


def coco(source: str, url: str, options: ReadOptions) -> Records:
    """COCO annotation JSON: `{"images": [{id, file_name}], "annotations": [{id, image_id, caption}]}`. Lin et al. 2014,
    "Microsoft COCO: Common Objects in Context". An image is named by its `file_name` or else by its id. Annotations
    that VizWiz-Captions (Gurari et al. 2020) calls `is_rejected` or `is_precanned` become rejected, see `only_true`.
    """
    yield from only_true(_annotations(url, options), options, url)


def _annotations(url: str, options: ReadOptions) -> Records:
    """A record for each annotation of COCO JSON."""
    name, split, expected = name_of(url), split_in(url), "complete COCO annotation JSON"
    file_names = {
        image["id"]: image["file_name"]
        for image in json_items(url, "images.item", expected)
        if isinstance(image, dict) and isinstance(image.get("id"), int | str) and image.get("file_name")
    }
    seen: set[int | str] = set()
    for number, annotation in enumerate(json_items(url, "annotations.item", expected), 1):
        if not isinstance(annotation, dict):
            detail = f"an annotation must be an object, was: {annotation!r:.80}"
            yield Rejected(name, number, "not_a_record", detail, "")
            continue
        key, image = annotation.get("id"), annotation.get("image_id")
        if isinstance(image, int | str):
            image = file_names.get(image, image)
        record = Record(name, number, image, annotation.get("caption"), split, options.language)
        record = record._replace(truth=values_of(annotation, options))
        if isinstance(key, int | str):
            if key in seen:
                yield reject(record, "duplicate_caption_id", f"annotation id must be unique, was again: {key}")
                continue
            seen.add(key)
        yield record


def karpathy(source: str, url: str, options: ReadOptions) -> Records:
    """Karpathy's `dataset_*.json`: `{"images": [{filepath, filename, split, sentences: [{raw}]}]}`. Karpathy and
    Fei-Fei 2015, "Deep Visual-Semantic Alignments": the usual splits of Flickr8k, Flickr30k and COCO.
    """
    name, number = name_of(url), 0
    for image in json_items(url, "images.item", "complete Karpathy dataset JSON"):
        sentences = image.get("sentences") if isinstance(image, dict) else None
        if not isinstance(sentences, list) or not sentences:
            number += 1
            detail = f"an image must be an object with a list of sentences, was: {image!r:.80}"
            yield Rejected(name, number, "not_a_record", detail, "")
            continue
        folder, path = image.get("filepath"), image.get("filename")
        if folder and path and isinstance(path, str):
            path = f"{folder}/{path}"
        for index, sentence in enumerate(sentences):
            number += 1
            text = sentence.get("raw") if isinstance(sentence, dict) else None
            yield Record(name, number, path, text, image.get("split"), options.language, index)


def flickr(source: str, url: str, options: ReadOptions) -> Records:
    """Flickr8k and Flickr30k token files (Hodosh et al. 2013, Young et al. 2014): lines `name.jpg#k⇥caption`; k numbers
    an image's captions, which need not be adjacent, and ends the caption_id.
    """
    name, split = name_of(url), split_in(url)
    for line, content in enumerate(lines(url, "a Flickr token file of lines `name.jpg#k⇥caption`"), 1):
        key, tab, text = content.partition("\t")
        image, mark, number = key.rpartition("#")
        if tab and mark and number.isascii() and number.isdigit() and len(number) <= 4:
            yield Record(name, line, image, text, split, options.language, int(number))
        elif content.strip():
            detail = f"a line must be `image#k⇥caption` with k in 0..{MAX_NUMBER}, was: {key!r:.80}"
            yield Rejected(name, line, "not_a_record", detail, "")


def plain_lines(source: str, url: str, options: ReadOptions) -> Records:
    """One caption per line (`captions.txt`); empty lines only count. Each is of an image named by its number."""
    name, split = name_of(url), split_in(url)
    for line, text in enumerate(lines(url, "UTF-8 text with one caption per line"), 1):
        if text.strip():
            yield Record(name, line, str(line), text, split, options.language)


class VseppSplit(NamedTuple):
    """The files of a split in VSE++'s layout. captions: in English, or the language that is given. images: the image
    list, "" if there is none. others: by language, captions in others that are asked for.
    """

    captions: str
    images: str
    others: dict[str, str]


def vsepp_files(source: str, options: ReadOptions) -> list[str]:
    """The files of VSE++'s layout that are read: for each split, its captions, its image list if there is one, and its
    captions in other languages.
    """
    splits = _vsepp_splits(source, options).values()
    return [url for split in splits for url in (split.captions, split.images, *split.others.values()) if url]


def vsepp(source: str, url: str, options: ReadOptions) -> Records:
    """VSE++ "precomp" captions (Faghri et al. 2018, "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives"):
    `{split}_caps.txt` with five lines per image, all of a folder or one such file. Images are named by
    `{split}_images.txt` beside it, or `{split}_{row in {split}_ims.npy, from 0}`.

    With the language `all`, also `{split}_caps.{language}.tsv` beside it, lines of an image's name, a tab and a caption
    (`name.jpg⇥Ein Hund rennt.`); `{split}_caps.txt` is then English. Captions of an image that has none in one of
    the languages are rejected (`no_language`), as models of several languages need all of them.

    Raises ValueError unless there are five lines an image, FileNotFoundError for `all` without such a file.
    """
    for split, files in _vsepp_splits(source, options).items():
        captions, images = files.captions, files.images
        others: dict[str, dict[str, list[Record]]] = {}
        for language, file in files.others.items():
            others[language] = {}
            for found in _named_captions(file, split, language):
                if isinstance(found, Rejected):
                    yield found
                else:
                    others[language].setdefault(str(found.image), []).append(found)
        listed = lines(images, "a list of image names") if images else (f"{split}_{index}" for index in count())
        rule = f"5 lines for each line of {name_of(images)}" if images else "5 lines per image"
        own = "en" if others else options.language
        image: str | None = None
        line = 0
        for line, text in enumerate(lines(captions, VSEPP_LINES), 1):
            number = (line - 1) % CAPTIONS_PER_IMAGE
            image = next(listed, None) if number == 0 else image
            if image is None:
                raise ValueError(f"{captions}: must have {rule}, has more")
            record = Record(name_of(captions), line, image, text, split, own, number)
            if lacking := [language for language, known in others.items() if image not in known]:
                detail = f"image must have captions in {' and '.join([own, *others])}, has none in: {lacking[0]}"
                yield reject(record, "no_language", detail)
                continue
            yield record
            if number == CAPTIONS_PER_IMAGE - 1:
                further = [found for known in others.values() for found in known.pop(image)]
                for place, found in enumerate(further, CAPTIONS_PER_IMAGE):
                    yield found._replace(number=place)
        if line % CAPTIONS_PER_IMAGE or (images and next(listed, None) is not None):
            raise ValueError(f"{captions}: must have {rule}, has only {line} lines")
        for found in (found for known in others.values() for its in known.values() for found in its):
            yield reject(found, "no_image", f"image must be one of the split {split}, was: {found.image}")


def _named_captions(url: str, split: str, language: str) -> Records:
    """A record for each line of a file of `image⇥caption`."""
    for line, text in enumerate(lines(url, "lines of an image's name, a tab and a caption"), 1):
        image, tab, caption = text.partition("\t")
        if tab:
            yield Record(name_of(url), line, image, caption, split, language)
        else:
            yield Rejected(name_of(url), line, "not_a_record", "must be an image, a tab and a caption", excerpt(text))


def _vsepp_splits(source: str, options: ReadOptions) -> dict[str, VseppSplit]:
    """The files of each split, in reading order."""
    folder, wanted = (source, names(source)) if is_folder(source) else (folder_of(source), [name_of(source)])
    found = {match["split"]: name for name in wanted if (match := VSEPP.fullmatch(name))}
    if not found:
        raise FileNotFoundError(f"{source}: has no VSE++ captions, expected files named <split>_caps.txt")
    others: dict[str, dict[str, str]] = {split: {} for split in found}
    if options.language == "all":
        for match in filter(None, map(VSEPP_OTHER.fullmatch, sorted(names(folder)))):
            if match["split"] in others:
                others[match["split"]][match["language"]] = join(folder, match[0])
        if lacking := [split for split, files in others.items() if not files]:
            rule = f"expected {lacking[0]}_caps.<language>.tsv beside {found[lacking[0]]}"
            raise FileNotFoundError(f"{source}: has captions in one language, {rule}")
    splits = {}
    for split in sorted(found, key=split_order):
        images = join(folder, f"{split}_images.txt")
        fs, path = filesystem(images)
        splits[split] = VseppSplit(join(folder, found[split]), images if fs.isfile(path) else "", others[split])
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
    splits = _multi30k_splits(source, options).values()
    return [url for captions in splits for url in (captions[0].images, *(file.url for file in captions))]


def multi30k(source: str, url: str, options: ReadOptions) -> Records:
    """Multi30K folders (Elliott et al. 2016, "Multi30K: Multilingual English-German Image Descriptions"): line i of
    `{split}.{1..5}.{language}.gz` (task 2) or `{split}.{language}.gz` (task 1), maybe not gzipped, is a caption of the
    image in line i (`name.jpg` or `name.jpg#k`) of `{split}_images.txt` or `{split}.txt`, there or in a folder
    `image_splits` beside it. Captions of the options' language, or `all`, image by image, by language and file. Raises
    ValueError for files with more or fewer lines, FileNotFoundError when language or image list are lacking.
    """
    for split, captions in _multi30k_splits(source, options).items():
        listed = lines(captions[0].images, "a list of image names")
        texts_of = (lines(file.url, "Multi30K captions, one per line") for file in captions)
        for line, (image, *texts) in enumerate(zip_longest(listed, *texts_of), 1):
            if image is None or None in texts:
                uneven = [text is not None if image is None else text is None for text in texts].index(True)
                has = f"{line - 1}, has more" if image is None else f"has only {line - 1}"
                list_name = name_of(captions[0].images)
                raise ValueError(f"{captions[uneven].url}: must have as many lines as {list_name}, {has}")
            image = re.sub(r"#\d+$", "", image)
            for number, (file, text) in enumerate(zip(captions, texts, strict=True)):
                yield Record(name_of(file.url), line, image, text, split, file.language, number)


def multi30k_captions(folder: str) -> list[CaptionFile]:
    """The caption files in a folder, in reading order; `train.en` only if its split has an image list."""
    present, beside = names(folder), join(folder_of(folder), "image_splits")
    try:
        lists = {name: join(beside, name) for name in names(beside)}
    except (FileNotFoundError, NotADirectoryError):
        lists = {}
    lists |= {name: join(folder, name) for name in present}
    captions = []
    for match in filter(None, map(MULTI30K.fullmatch, present)):
        split, images = match["split"], lists.get(f"{match['split']}_images.txt") or lists.get(f"{match['split']}.txt")
        if match["number"] or images:
            url = join(folder, match[0])
            captions.append(CaptionFile(split, match["language"], match["number"] or "", url, images or ""))
    return sorted(captions, key=lambda file: (split_order(file.split), *file))


def _multi30k_splits(source: str, options: ReadOptions) -> dict[str, list[CaptionFile]]:
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
