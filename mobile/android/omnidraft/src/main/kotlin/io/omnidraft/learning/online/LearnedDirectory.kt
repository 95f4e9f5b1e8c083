package io.omnidraft.learning.online

import io.omnidraft.AdapterException
import io.omnidraft.SettingException
import io.omnidraft.disk.Claim
import io.omnidraft.disk.ClaimException
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.claim
import io.omnidraft.learning.step.Arrays
import io.omnidraft.learning.step.ByteValues
import io.omnidraft.learning.step.StateFormat
import io.omnidraft.learning.step.TypedArray
import io.omnidraft.models.Adapter
import io.omnidraft.models.decodeAdapter
import io.omnidraft.models.encodeAdapter
import io.omnidraft.models.writeAdapter
import io.omnidraft.reason
import java.io.File
import java.io.IOException

/*
 * The directory of what a device learned for one pair of models: the checkpoint, and the adapter in use.
 *
 * - `checkpoint.safetensors`: the whole state in one file, so that a reader never finds half of it;
 * - `adapter.safetensors`: a copy of the adapter in use for sessions, written after the checkpoint.
 */

private const val CHECKPOINT = "checkpoint.safetensors"
private const val ADAPTER = "adapter.safetensors"
private const val LEARNER = "learner/"
private const val GOOD = "good/"
private const val IN_USE = "used"
private const val BASE = "base"

/** The state of an adaptation between two steps. */
internal class LearningCheckpoint(
    val progress: AdaptationProgress,
    val learner: Arrays,
    val good: Arrays, // the learner's state at the last adapter that was found good; empty where that is learner
    val used: Adapter?, // the learned adapter in use; null for version 0
    val base: Adapter?, // the adapter that learning began with, which is version 0; null for the drafter as it is
) {
    val adapter: Adapter? get() = used ?: base
}

/** The directory of what a device learned for one pair of models. */
internal class LearnedDirectory(val place: File) {
    private val checkpoint = File(place, CHECKPOINT)
    private val adapter = File(place, ADAPTER)
    private val format = StateFormat("omnidraft.idle_learning", "1", "wipe what was learned to start over")

    /** Whether something was learned or is being learned here. */
    val isBegun: Boolean get() = checkpoint.exists()

    /** Run [work] while no one else learns here; the directory is made if it is absent. */
    fun <T> claimed(work: () -> T): T = claimedPlace().use { work() }

    /** Replace the checkpoint. A kill at any moment leaves the old file or the new one, whole. */
    fun write(state: LearningCheckpoint, of: AdaptationOf) {
        val arrays = LinkedHashMap<String, TypedArray>()
        for ((name, array) in state.learner) arrays[LEARNER + name] = array
        for ((name, array) in state.good) arrays[GOOD + name] = array
        state.used?.let { arrays[IN_USE] = ByteValues(encodeAdapter(it)) }
        state.base?.let { arrays[BASE] = ByteValues(encodeAdapter(it)) }
        format.write(checkpoint, arrays, mapOf("of" to of.asJson(), "progress" to state.progress.asJson()))
        if (state.used != null) writeAdapter(adapter, state.used) else adapter.delete()
    }

    fun read(of: AdaptationOf): LearningCheckpoint? {
        if (!isBegun) return null
        val saved = format.read(checkpoint)
        val progress = try {
            of.differing(saved.metadata["of"])?.let { throw format.refusal(checkpoint, "was learned with $it") }
            AdaptationProgress.fromJson(saved.metadata["progress"])
        } catch (error: ValueError) {
            throw format.refusal(checkpoint, "has no readable progress (${reason(error)})")
        }
        val used = adapterIn(saved.arrays, IN_USE)
        if ((used == null) != (progress.version == 0L)) throw format.refusal(checkpoint, "has another adapter in use")
        return LearningCheckpoint(
            progress,
            below(saved.arrays, LEARNER),
            below(saved.arrays, GOOD),
            used,
            adapterIn(saved.arrays, BASE),
        )
    }

    /** Delete all that was learned; the caller has claimed the directory. */
    fun wipe() {
        checkpoint.delete()
        adapter.delete()
        for (left in place.listFiles().orEmpty()) {
            if (left.name.startsWith(".$CHECKPOINT.") || left.name.startsWith(".$ADAPTER.")) left.delete()
        }
    }

    private fun adapterIn(arrays: Arrays, name: String): Adapter? {
        val bytes = arrays[name] ?: return null
        if (bytes !is ByteValues) throw format.refusal(checkpoint, "has no readable adapter")
        return try {
            decodeAdapter(bytes.values)
        } catch (error: AdapterException) {
            throw format.refusal(checkpoint, "has no readable adapter (${reason(error)})")
        }
    }

    private fun claimedPlace(): Claim = try {
        val parent = place.absoluteFile.parentFile
        if (parent != null && !parent.isDirectory && !parent.mkdirs()) throw IOException("$parent cannot be made")
        claim(place)
    } catch (_: ClaimException) {
        throw SettingException("$place is in use by another learner", "wait for it, or give another place")
    } catch (error: IOException) {
        throw SettingException("nothing can be learned in $place (${reason(error)})", "choose another place")
    }
}

/** The arrays whose names have a prefix, by the rest of their names. */
private fun below(arrays: Arrays, prefix: String): Arrays =
    arrays.filterKeys { it.startsWith(prefix) }.mapKeys { it.key.removePrefix(prefix) }
