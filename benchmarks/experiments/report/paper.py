"""The paper's figures, for comparison: arXiv 2507.02659, A100, T = 0.01, drafter Llama-68M."""

TASKS = {"gsm8k": "GSM8K", "code": "MBPP + HumanEval", "alpaca": "Alpaca", "scitldr": "XSum"}

# target -> arm -> (acceptance, speed-up) on each task, in the order above
MAIN = {
    "Llama3-8B": {
        "direct map": ((0.10, 0.94), (0.09, 1.03), (0.09, 0.96), (0.11, 0.91)),
        "L_DM": ((0.32, 1.58), (0.22, 1.26), (0.16, 1.25), (0.20, 1.20)),
        "L_DM + 0.2 L_ngram": ((0.42, 1.70), (0.27, 1.33), (0.20, 1.30), (0.24, 1.24)),
        "the same, LoRA 32": ((0.37, 1.59), (0.19, 1.28), (0.17, 1.21), (0.23, 1.21)),
    },
    "Qwen2-7B": {
        "direct map": ((0.14, 1.04), (0.09, 0.91), (0.13, 1.01), (0.12, 0.96)),
        "L_DM": ((0.33, 1.50), (0.22, 1.29), (0.17, 1.25), (0.19, 1.16)),
        "L_DM + 0.2 L_ngram": ((0.37, 1.61), (0.26, 1.36), (0.20, 1.30), (0.22, 1.22)),
        "the same, LoRA 32": ((0.31, 1.41), (0.21, 1.21), (0.18, 1.25), (0.22, 1.21)),
    },
}

# Llama3-8B on a subset of GSM8K, k = 4: arm -> acceptance, speed-up
CACHE = {
    "direct map": (0.12, 1.01),
    "direct map + cache, no training": (0.16, 1.11),
    "L_DM": (0.32, 1.51),
    "L_DM + cache": (0.35, 1.54),
    "L_DM + 0.2 L_ngram + cache": (0.41, 1.61),
}

EVICTION = {"no cache": 1.29, "LFU, a quarter": 1.36, "all": 1.36}  # speed-up
ENTRIES = {"gsm8k": 5_569, "code": 2_238, "alpaca": 20_339, "scitldr": 17_013}  # n-grams in the cache
MEGABYTES = {"gsm8k": 1.372, "code": 0.501, "alpaca": 4.569, "scitldr": 3.924}
SAMPLES = {"gsm8k": 7_473, "code": 910, "alpaca": 8_000, "scitldr": 4_000}
