package io.omnidraft.session.state

import io.omnidraft.GenerationConfig
import io.omnidraft.StopReason
import io.omnidraft.decoding.Costs
import io.omnidraft.decoding.LengthState
import io.omnidraft.decoding.NO_IDS
import io.omnidraft.models.Role

/* What a session file holds, as values (spec/05-session.md). */

/**
 * A message and its answer.
 *
 * @property answer target ids, without the token or string that ended it.
 * @property results of the tools that the answer before called; they take the place of the message.
 */
internal class Turn(val message: String, val answer: IntArray = NO_IDS, val results: List<String> = emptyList()) {
    override fun equals(other: Any?): Boolean = other is Turn && message == other.message &&
        answer.contentEquals(other.answer) && results == other.results

    override fun hashCode(): Int = 31 * message.hashCode() + answer.contentHashCode()
}

internal data class Identity(
    val draftFingerprint: String,
    val targetFingerprint: String,
    val graphs: Map<String, String>, // the SHA-256 of each file of the graphs, by path
    val adapters: Map<Role, String> = emptyMap(), // digest of the adapter in use by role; a role without one is absent
)

/** The last generation of a session. */
internal class SavedAnswer(
    val config: GenerationConfig, // its settings, with the seed that was used
    val prompt: IntArray, // target ids
    val output: IntArray, // target ids
    val context: IntArray?, // the same text in draft ids; null where no drafter was loaded
    val random: Long, // state of SplitMix64
    val stopReason: StopReason?, // why it ended; null when it can continue
    val logprobs: DoubleArray = DoubleArray(0), // of the output, if they were asked for
)

internal class SavedSession(
    val omnidraft: String, // version of the package that wrote it
    val identity: Identity, // what the session belongs to
    val costs: Costs, // seconds on this device
    val lengths: LengthState, // what the draft length "auto" learned
    val turns: List<Turn>, // earlier turns of a conversation
    val asked: Turn?, // what is being answered; null where every message has its turn
    val answer: SavedAnswer?, // the last generation; null before the first, and where it was taken back
    val system: String? = null, // the system prompt; null for none
    val tools: String? = null, // as the prompt lists them; null without any
)
