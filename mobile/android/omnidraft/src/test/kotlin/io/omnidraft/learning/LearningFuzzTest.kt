package io.omnidraft.learning

import io.omnidraft.OmniDraftException
import io.omnidraft.bundle.inDirectory
import io.omnidraft.bundle.publicKeyOf
import io.omnidraft.disk.hexOf
import io.omnidraft.learning.online.AdaptationOf
import io.omnidraft.learning.online.AdaptationProgress
import io.omnidraft.learning.online.AnswerPlace
import io.omnidraft.learning.online.LearnedDirectory
import io.omnidraft.learning.online.LearningCheckpoint
import io.omnidraft.learning.online.Unfinished
import io.omnidraft.learning.step.FloatValues
import io.omnidraft.learning.step.LongValues
import io.omnidraft.learning.step.StateFormat
import io.omnidraft.models.Adapter
import io.omnidraft.models.SitePair
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.support.changedBytes
import io.omnidraft.sync.Channel
import io.omnidraft.sync.Installed
import io.omnidraft.sync.Seen
import io.omnidraft.sync.SignedKind
import io.omnidraft.sync.SignedRecord
import io.omnidraft.sync.StoredFile
import io.omnidraft.sync.Used
import io.omnidraft.sync.parseRecord
import io.omnidraft.sync.readInstalled
import io.omnidraft.sync.readSigned
import io.omnidraft.sync.writeSigned
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File
import kotlin.random.Random

private const val FILES = 2500 // of each kind
private const val CREATED = "2026-01-02T03:04:05Z"
private const val SEED = 20_261_122

/** Files with changed bytes are refused by name or read; nothing else ever happens. */
internal class LearningFuzzTest {
    private val random = Random(SEED)
    private val hash = "0123456789abcdef".repeat(4)
    private val channel = Channel("a".repeat(64), "b".repeat(64), "d".repeat(64), "e".repeat(64))
    private val file = StoredFile(hash, 4096)
    private val adapter = Adapter(
        channel.base, channel.draftTokenizer, channel.targetTokenizer,
        mapOf("layers.0.o" to SitePair(FloatTensor(2, 1), FloatTensor(1, 3))), CREATED,
    )

    @Test
    fun pushes() {
        val seed = ByteArray(32)
        val files = listOf("an adapter", "a segment").map { it.toByteArray() }
        val record = SignedRecord(
            SignedKind.PUSH, hexOf(publicKeyOf(seed)), channel, 7, CREATED, 5, StoredFile.of(files[0]), null,
            listOf(StoredFile.of(files[1])),
        )
        fuzz(record.text) { parseRecord(it, SignedKind.PUSH) }
        val whole = writeSigned(record, files, seed)
        readSigned(whole, SignedKind.PUSH, null)
        for (at in whole.indices step 41) {
            val changed = whole.copyOf().also { it[at] = (it[at].toInt() xor 1).toByte() }
            assertThrows(OmniDraftException::class.java) { readSigned(changed, SignedKind.PUSH, null) }
        }
    }

    @Test
    fun pointers() = inDirectory { place ->
        val used = Used(7, file)
        fuzz(Installed(channel, Seen(7, hash), 6, used, used).text) {
            File(place, "current").writeBytes(it)
            readInstalled(place)
        }
    }

    @Test
    fun states() = inDirectory { place ->
        val format = StateFormat("omnidraft.learner_state", "1")
        val state = File(place, "state.safetensors")
        val arrays = mapOf("parameters" to FloatValues(FloatArray(5)), "counts" to LongValues(LongArray(2)))
        format.write(state, arrays, mapOf("settings" to mapOf("rate" to 0.001, "steps" to 3L)))
        fuzz(state.readBytes()) {
            state.writeBytes(it)
            format.read(state)
        }
    }

    @Test
    fun checkpoints() = inDirectory { place ->
        val of = AdaptationOf(mapOf("target" to channel.target, "drafter" to channel.base))
        val progress = AdaptationProgress(
            answered = 9, version = 1, learned = 1, memory = listOf(1, 2), pending = listOf(9),
            places = mapOf(9L to AnswerPlace(9, 1, 4)), read = AnswerPlace(9, 1, 4),
            unfinished = Unfinished(listOf(3), listOf(1), 1, true),
        )
        val directory = LearnedDirectory(place)
        val learner = mapOf("parameters" to FloatValues(FloatArray(5)))
        directory.write(LearningCheckpoint(progress, learner, learner, adapter, null), of)
        val checkpoint = File(place, "checkpoint.safetensors")
        fuzz(checkpoint.readBytes()) {
            checkpoint.writeBytes(it)
            directory.read(of)
        }
    }

    /** Reads many changed copies; counts that both outcomes happened. */
    private fun fuzz(whole: ByteArray, read: (ByteArray) -> Any?) {
        read(whole)
        var refused = 0
        repeat(FILES) { number ->
            val data = changedBytes(whole, random)
            try {
                read(data)
            } catch (error: OmniDraftException) {
                refused++
                assertTrue(error.message.orEmpty().isNotEmpty())
            } catch (error: Throwable) {
                throw AssertionError("file $number of seed $SEED: $error", error)
            }
        }
        assertTrue(refused > FILES / 10, "$refused of $FILES were refused")
    }
}
