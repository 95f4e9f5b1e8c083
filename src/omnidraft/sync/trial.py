"""Compare an offered adapter with the one in use on the device's recent traces; onnxruntime alone."""

from collections import deque
from pathlib import Path

from omnidraft import defaults
from omnidraft.learning.compare import AdapterComparison, Tensors, compare
from omnidraft.learning.positions.from_traces import aligner_of, from_traces
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_fit import fit, unfitted
from omnidraft.runtime.models.load_graph import load_drafter
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sync.pull import Trial

RECENT = defaults.SYNC_RECENT_RECORDS  # recorded generations read at most; the latest


def trial_on(traces: Path, bundle: Bundle, vocab_map: VocabMap) -> Trial:
    """A trial on the traces in a directory.

    Records of the target with an adapter are left out: they have the distributions of another target.

    Raises:
        TraceFileError: the directory is not a trace of this pair.
    """
    recorded = read_traces(traces, Vocabularies.of(vocab_map))
    recent = deque((each for each in recorded if each.start.target_adapter is None), maxlen=RECENT)

    def trial(current: Adapter | None, offered: Adapter) -> AdapterComparison:
        responses = list(from_traces(recent, aligner_of(bundle, vocab_map)))

        def tensors(adapter: Adapter | None) -> Tensors:
            fitted = unfitted(bundle, "drafter")
            if adapter is not None:
                _, fitted = fit(adapter, bundle, vocab_map, "drafter")
            return fitted.tensors or {}

        return compare(load_drafter(bundle).new_model(), responses, tensors(current), tensors(offered))

    return trial
