"""The level of each folder of vectors: README.md, "Running"."""

LEVELS: dict[str, tuple[str, ...]] = {
    "core": (
        "random", "sampling", "utf8", "translate", "verify", "draft_length", "lookup", "tokenizer",
        "tokenizer/invalid", "tokenize", "template", "thought",
        "draft_prompt", "stop", "cache/learn", "bundle", "map/fingerprint", "map/valid",
        "map/invalid", "generate", "logprobs",
    ),
    "files": (
        "cache/load", "cache/valid", "cache/invalid", "cache/merge", "session/valid", "session/invalid",
        "bundle/graph", "signing", "adapter/valid", "adapter/invalid", "adapter/fit", "costs",
        "archive/valid", "archive/invalid", "archive/index", "archive/address", "archive/open",
    ),
    "learning": (
        "trace/rows", "trace/valid", "trace/invalid", "learner/align", "learner/trace", "learner/calls",
        "learner/vector", "learner/mean", "learner/guard", "learner/interval",
    ),
    "grammar": ("grammar/valid", "grammar/invalid", "grammar/tokens", "grammar/generate", "grammar/calls",
                "grammar/prompt"),
    "publishing": ("sync/record", "sync/pull", "sync/compare", "learner/average", "learner/rate"),
}  # fmt: skip


def with_levels(counts: dict[str, int]) -> dict[str, object]:
    """The manifest of vectors: the folders of each level, with the number of vectors in each.

    Raises:
        AssertionError: a folder without a level, or a level with a folder that has no vectors.
    """
    named = sorted(folder for folders in LEVELS.values() for folder in folders)
    assert named == sorted(counts), f"levels.py and the folders differ: {set(named) ^ set(counts)}"
    levels = {level: {folder: counts[folder] for folder in folders} for level, folders in LEVELS.items()}
    sums = {level: sum(folders.values()) for level, folders in levels.items()}
    return {"levels": levels, "counts": {**sums, "together": sum(counts.values())}}
