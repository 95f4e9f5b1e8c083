package io.omnidraft.sync

import io.omnidraft.Defaults
import io.omnidraft.bundle.Bundle
import io.omnidraft.decoding.SessionModel
import io.omnidraft.learning.AdapterComparison
import io.omnidraft.learning.compare
import io.omnidraft.learning.positions.Aligner
import io.omnidraft.learning.positions.TraceAligner
import io.omnidraft.learning.positions.fromTraces
import io.omnidraft.learning.positions.fullTrie
import io.omnidraft.models.Adapter
import io.omnidraft.models.Role
import io.omnidraft.models.fit
import io.omnidraft.models.placeOf
import io.omnidraft.models.unfitted
import io.omnidraft.traces.Traced
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.readTraces
import io.omnidraft.vocab.VocabMap
import java.io.File

/*
 * Compare an offered adapter with the one in use on the device's recent traces (spec/15-sync.md, The adapter
 * comparison).
 */

/**
 * A trial on the traces in a directory. Records of the target with an adapter are left out: they have the distributions
 * of another target.
 */
internal fun trialOn(
    traces: File, // the directory
    bundle: Bundle,
    vocabMap: VocabMap,
    withModel: ((SessionModel) -> AdapterComparison) -> AdapterComparison,
): Trial = Trial { current, offered ->
    val aligner = Aligner(fullTrie(vocabMap), bundle.drafter.kv.maxLength)
    val recent = recentOf(readTraces(listOf(traces), Vocabularies.of(vocabMap)))
    val responses = fromTraces(recent.asSequence(), TraceAligner(aligner, bundle.drafter.start)).toList()
    val place = placeOf(bundle, vocabMap)
    val tensors = { adapter: Adapter? ->
        if (adapter == null) unfitted(bundle.drafter).tensors else fit(adapter, place, Role.DRAFTER).second.tensors
    }
    withModel { model -> compare(model, responses, tensors(current), tensors(offered)) }
}

private fun recentOf(traces: Sequence<Traced>): List<Traced> {
    val recent = ArrayDeque<Traced>()
    for (traced in traces) {
        if (traced.start.targetAdapter != null) continue
        if (recent.size == Defaults.SYNC_RECENT_RECORDS) recent.removeFirst()
        recent.addLast(traced)
    }
    return recent
}
