"""Train the shipped cloze model: `python -m negcap.pipelines.resources.cloze CAPTIONS…`."""
