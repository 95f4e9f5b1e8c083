package io.omnidraft.learning.online

import io.omnidraft.Defaults
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.boolean
import io.omnidraft.disk.integer
import io.omnidraft.disk.long
import io.omnidraft.disk.mapping
import io.omnidraft.disk.number
import io.omnidraft.disk.text

/*
 * How far an adaptation is, as the values of its checkpoint (spec/13-learner.md, The end of an interval).
 *
 * The Python runtime has the same fields in `profiles.py`. Besides them, this one has the place in the trace of each
 * answer, and a round of learning that a budget ended, since on a phone both live longer than a call.
 */

private const val MOST_ANSWERS = 1 shl 16
private const val MOST_COUNT = 1L shl 53
private const val MOST_ROLLBACKS = 1 shl 20

/** Where an answer is: a record of a trace. */
internal data class AnswerPlace(val number: Long, val segment: Long, val record: Long)

/**
 * A round of learning that is not finished.
 *
 * @property new numbers of the answers of the interval.
 * @property earlier numbers of earlier answers, some of which each step repeats.
 * @property done steps that were made; the next one is that with this number.
 * @property applied whether one of them changed the drafter.
 */
internal data class Unfinished(val new: List<Long>, val earlier: List<Long>, val done: Int, val applied: Boolean)

internal class AdaptationProgress(
    var answered: Long = 0,
    var version: Long = 0, // of the adapter in use, counted by learning; 0 for the one that learning began with
    var good: Long = 0, // the last version that the guard found good
    var learned: Long = 0, // versions learned so far, with those that were rolled back
    var rollbacks: Int = 0, // in a row, since the last version that was found good
    var cooldown: Int = 0, // intervals left without learning after a rollback
    var rateScale: Double = 1.0, // factor of the learning rate, 0 to 1
    var memory: List<Long> = emptyList(), // numbers of the answers to learn from again
    var pending: List<Long> = emptyList(), // numbers of the answers that were not learned from so far
    var guard: GuardState = GuardState.EMPTY, // the answers that the guard compares
    var places: Map<Long, AnswerPlace> = emptyMap(), // where the answers of memory, pending and unfinished are
    var read: AnswerPlace? = null, // the last record of the trace that was taken; null before the first
    var unfinished: Unfinished? = null, // a round of learning that goes on in the next step; null for none
) {
    /** The fields under their names in the file. */
    fun asJson(): Map<String, Any?> = mapOf(
        "answered" to answered,
        "version" to version,
        "good" to good,
        "learned" to learned,
        "falls" to rollbacks,
        "rest" to cooldown,
        "slow" to rateScale,
        "memory" to memory,
        "pending" to pending,
        "guard" to guard.asJson(),
        "places" to places.values.map { listOf(it.number, it.segment, it.record) },
        "read" to read?.let { listOf(it.number, it.segment, it.record) },
        "unfinished" to unfinished?.let {
            mapOf("new" to it.new, "earlier" to it.earlier, "done" to it.done, "applied" to it.applied)
        },
    )

    /** Forget the places of answers that nothing names any more. */
    fun dropPlaces() {
        val named = memory.toHashSet()
        named.addAll(pending)
        unfinished?.let {
            named.addAll(it.new)
            named.addAll(it.earlier)
        }
        places = places.filterKeys { it in named }
    }

    companion object {
        /** Read back what [asJson] gave. */
        fun fromJson(value: Any?): AdaptationProgress {
            val fields = mapping(value)
            if (fields.keys != AdaptationProgress().asJson().keys) {
                throw ValueError("it has other fields than the progress of an adaptation")
            }
            val progress = AdaptationProgress(
                answered = count(fields["answered"]),
                version = count(fields["version"]),
                good = count(fields["good"]),
                learned = count(fields["learned"]),
                rollbacks = integer(fields["falls"], 0, MOST_ROLLBACKS),
                cooldown = integer(fields["rest"], 0, Defaults.LEARNER_MAX_REST),
                rateScale = number(fields["slow"], 0.0, 1.0),
                memory = numbers(fields["memory"]),
                pending = numbers(fields["pending"]),
                guard = GuardState.fromJson(fields["guard"]),
                places = array(fields["places"], MOST_ANSWERS).map { place(it) }.associateBy { it.number },
                read = fields["read"]?.let { place(it) },
                unfinished = fields["unfinished"]?.let { unfinished(mapping(it)) },
            )
            val isCounted = maxOf(progress.version, progress.good) <= progress.learned
            if (!isCounted) throw ValueError("its versions are not counted")
            return progress
        }

        private fun unfinished(fields: Map<String, Any?>): Unfinished = Unfinished(
            new = numbers(fields["new"]),
            earlier = numbers(fields["earlier"]),
            done = integer(fields["done"], 0),
            applied = boolean(fields["applied"]),
        )

        private fun count(value: Any?): Long = long(value, 0, MOST_COUNT)

        private fun numbers(value: Any?): List<Long> = array(value, MOST_ANSWERS).map { long(it, 1, MOST_COUNT) }

        private fun place(value: Any?): AnswerPlace {
            val (number, segment, record) = array(value, 3, 3).map { long(it, 0, MOST_COUNT) }
            return AnswerPlace(number, segment, record)
        }
    }
}

/**
 * What an adaptation belongs to, by the names that messages use: models, tokenizers, and the settings that a later run
 * needs too.
 */
internal class AdaptationOf(private val facts: Map<String, String>) {
    fun asJson(): Map<String, Any?> = facts

    /** The first fact in which a checkpoint differs, as a clause of a sentence; null for none. */
    fun differing(recorded: Any?): String? {
        val fields = mapping(recorded)
        for ((name, ours) in facts) {
            val theirs = fields[name]?.let { text(it, 256) }
            if (theirs != ours) return "the $name ${theirs?.take(12)} and not ${ours.take(12)}"
        }
        return null
    }
}
