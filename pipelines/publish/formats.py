"""The formats that `negcap publish` writes, by name."""

from __future__ import annotations

from ..tables.examples import all_captions
from . import (
    aro,
    cc_neg,
    clip_benchmark,
    coco,
    crepe,
    dpo,
    huggingface,
    lmms_eval,
    mcq,
    negbench,
    negclip,
    open_clip,
    snli,
    sugarcrepe,
    sugarcrepe_pp,
    triplet,
    valse,
    vse_c,
    webdataset,
)
from .publication import Format

FORMATS: dict[str, Format] = {
    "sugarcrepe": Format(
        sugarcrepe.write,
        "SugarCrepe, one JSON file per operator",
        "`json.load(open('$file'))['0']` has `filename`, `caption` and `negative_caption`. A model passes where "
        "the image is nearer to the caption than to the negative.",
        per_caption=1,
    ),
    "sugarcrepe++": Format(
        sugarcrepe_pp.write,
        "SugarCrepe++, one JSON file per operator",
        "`json.load(open('$file'))[0]` has `filename`, two true captions `caption` and `caption2`, and the "
        "`negative_caption` of the first. A model passes where the image is nearer to both than to the negative.",
        per_caption=1,
        siblings=True,
        prepare=sugarcrepe_pp.with_another,
    ),
    "aro": Format(
        aro.write,
        "ARO, one JSON file per operator",
        "`VG_Relation` reads the file of an operator as `visual_genome_relation.json`, `VG_Attribution` as "
        "`visual_genome_attribution.json`, with the images in `images/` beside it.",
        per_caption=1,
        images="sizes",
    ),
    "crepe": Format(
        crepe.write,
        "CREPE, one CSV per operator with all negatives of a caption in one row",
        "`pd.read_csv('$file', dtype={'image_id': str}, converters={'hard_negs': ast.literal_eval})`; the image of "
        "a row is `{image_id}.jpg`, cropped to the box.",
        images="sizes",
    ),
    "negclip": Format(
        negclip.write,
        "NegCLIP training data, one TSV per split",
        "`pd.read_csv('$file', sep='\\t', index_col=0, converters={'neg_caption': ast.literal_eval, 'neg_image': "
        "ast.literal_eval})`. Run the training in the folder that the paths are relative to.",
    ),
    "open_clip": Format(
        open_clip.write,
        "OpenCLIP training data, one TSV per split, true captions only",
        "`--train-data $file --dataset-type csv`. Run the training in the folder that the paths are relative to.",
        negatives=False,
        prepare=all_captions,
    ),
    "vse-c": Format(
        vse_c.write,
        "VSE-C, one folder per family in the layout of VSE++: five captions per image",
        "Line i of `$file` has its negatives in the file `i.txt` of the folder `${split}_ex` beside it, which is empty "
        "if there are none; lines 5j to 5j + 4 belong to line j of `${split}_images.txt`. All count from 0. With image "
        "features as `${split}_ims.npy`, the folder is VSE-C's `--data_path`/`--data_name`.",
        prepare=vse_c.first_five,
    ),
    "webdataset": Format(
        webdataset.write,
        "WebDataset, tar shards of 5,000 captions",
        "`webdataset.WebDataset('$split-00000.tar', shardshuffle=False).decode('pil')` gives samples with `jpg`, `txt` "
        "and `neg.json`; `neg.json` has the negatives of the caption with what was replaced.",
        images="files",
        embeds=True,
    ),
    "huggingface": Format(
        huggingface.write,
        "Parquet files for the Hugging Face hub, one row per negative",
        "`datasets.load_dataset('path/of/this/folder', '$operator', split='$split')` loads the negatives of one "
        "operator, `load_dataset('path/of/this/folder', split='$split')` those of all operators.",
        embeds=True,
        card_fields=huggingface.card_fields,
    ),
    "snli": Format(
        snli.write,
        "SNLI, one JSONL file per split: captions with what they entail and contradict",
        "`pd.read_json('$file', lines=True)`: a premise `sentence1`, a hypothesis `sentence2` and a `gold_label`, "
        "`entailment` or `contradiction`, as often the one as the other. `negcap entail` reads it.",
    ),
    "coco": Format(
        coco.write,
        "COCO captions, one JSON file per split",
        "`pycocotools.coco.COCO('$file')`; every annotation has its `negatives` beside the `caption`.",
        prepare=all_captions,
    ),
    "clip_benchmark": Format(
        clip_benchmark.write,
        "WebDataset for CLIP_benchmark's retrieval, one sample per image, true captions only",
        "`clip_benchmark eval --dataset wds/this --dataset_root path/of/this/folder --split $split "
        "--task zeroshot_retrieval`.",
        negatives=False,
        images="files",
        prepare=all_captions,
        embeds=True,
    ),
    "triplet": Format(
        triplet.write,
        "Parquet files for sentence-transformers, one triplet (image, caption, negative) per row",
        "`datasets.load_dataset('path/of/this/folder', 'triplet', split='$split')` is a `train_dataset` of "
        "`SentenceTransformerTrainer`, for `MultipleNegativesRankingLoss`.",
        embeds=True,
        card_fields=triplet.card_fields,
    ),
    "dpo": Format(
        dpo.write,
        "Parquet files of preferences for TRL's DPOTrainer, one (image, prompt, chosen, rejected) per row",
        "`datasets.load_dataset('path/of/this/folder', split='$split')` is what `trl.DPOTrainer` takes as "
        "`train_dataset`, with `max_length=None` in its config.",
        images="files",
        embeds=True,
        card_fields=dpo.card_fields,
    ),
    "mcq": Format(
        mcq.write,
        "Multiple choice for VLMEvalKit, one TSV per split",
        "Put `$file` into VLMEvalKit's folder `LMUData` as `negcap.tsv`; it is asked by `python run.py --data negcap "
        "--model NAME`. If the file has no column of images, the model is asked without them.",
        per_caption=1,
        embeds=True,
    ),
    "lmms-eval": Format(
        lmms_eval.write,
        "A task of lmms-eval, multiple choice with images",
        "In this folder: `python -m lmms_eval --include_path . --tasks negcap_$split --model NAME`.",
        per_caption=1,
        images="files",
        embeds=True,
    ),
    "cc-neg": Format(
        cc_neg.write,
        "CC-Neg, one file per split for CoN-CLIP's evaluation of negated captions",
        "CoN-CLIP's `CCNegEvalDataset` loads `${split}.pt` with the images under the paths in it; '$file' has the same "
        "rows as JSON lines.",
    ),
    "negbench": Format(
        negbench.write,
        "NegBench's multiple choice, one CSV per split with four captions a row",
        "`--name-of-mcq-set $file`, with NegBench's `src/evaluation/eval_negation.py`, started in the folder that the "
        "paths are relative to.",
    ),
    "valse": Format(
        valse.write,
        "VALSE, one JSON file per operator, with votes",
        "`json.load(open('$file'))` has by id `image_file`, `caption`, `foil` and `mturk`. VALSE's readers take pairs "
        "with `mturk['caption'] >= 2`. A model passes where the image is nearer to the caption than to the foil.",
        per_caption=1,
        votes=True,
    ),
}


def format_named(name: str) -> Format:
    """The format called `name`. Raises ValueError with the valid names for an unknown one."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, was: {name}")
    return FORMATS[name]
