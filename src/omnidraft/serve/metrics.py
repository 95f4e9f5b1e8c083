"""Counts of a server, as Prometheus reads them."""

from collections import Counter

from omnidraft.runtime.bundle.memory import peak_bytes
from omnidraft.runtime.session.api import Generation
from omnidraft.serve.worker import Worker

_HELP = {
    "requests_total": "Answered requests by path and status of HTTP.",
    "cancelled_total": "Answers that were stopped before their end.",
    "prompt_tokens_total": "Tokens of prompts.",
    "prompt_tokens_read_total": "Those of them that the target read; the KV cache held the others.",
    "output_tokens_total": "Tokens of answers.",
    "target_passes_total": "Target passes for answers.",
    "proposed_tokens_total": "Target tokens proposed by drafts and copies.",
    "accepted_tokens_total": "Those of them in answers.",
    "copied_tokens_total": "Proposed tokens that were copied.",
    "output_seconds_total": "Seconds of target passes and drafts for answers.",
    "prompt_seconds_total": "Seconds of reading prompts.",
}


class Metrics:
    """Counts since the server began; used by the thread of the loop alone."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = dict.fromkeys(_HELP, 0)
        self.requests: Counter[tuple[str, int]] = Counter()

    def add(self, generation: Generation, *, cancelled: bool) -> None:
        """Count an answer that has ended."""
        counts = generation.statistics
        self.counts["prompt_tokens_total"] += len(generation.prompt_ids)
        self.counts["prompt_tokens_read_total"] += counts.read
        self.counts["output_tokens_total"] += counts.emitted
        self.counts["target_passes_total"] += counts.rounds
        self.counts["proposed_tokens_total"] += counts.proposed
        self.counts["accepted_tokens_total"] += counts.accepted
        self.counts["copied_tokens_total"] += counts.copied
        self.counts["output_seconds_total"] += counts.total_seconds
        self.counts["prompt_seconds_total"] += counts.read_seconds
        self.counts["cancelled_total"] += cancelled

    def text(self, worker: Worker) -> str:
        """The counts in the text format of Prometheus."""
        lines = []
        for name, description in _HELP.items():
            lines += [f"# HELP omnidraft_{name} {description}", f"# TYPE omnidraft_{name} counter"]
            if name == "requests_total":
                lines += [
                    f'omnidraft_{name}{{path="{path}",status="{status}"}} {count}'
                    for (path, status), count in sorted(self.requests.items())
                ]
            else:
                lines.append(f"omnidraft_{name} {self.counts[name]}")
        for name, description, value in (
            ("requests_waiting", "Requests in the queue.", worker.waiting),
            ("requests_running", "Requests that are being answered.", int(worker.running is not None)),
            ("memory_peak_bytes", "Most resident memory of the process.", peak_bytes() or 0),
        ):
            lines += [
                f"# HELP omnidraft_{name} {description}",
                f"# TYPE omnidraft_{name} gauge",
                f"omnidraft_{name} {value}",
            ]
        return "\n".join(lines) + "\n"
