package io.omnidraft.conformance

import io.omnidraft.OmniDraftException
import io.omnidraft.bundle.inDirectory
import io.omnidraft.bundle.publicKeyOf
import io.omnidraft.disk.hexOf
import io.omnidraft.models.AdapterPlace
import io.omnidraft.support.adapterEntry
import io.omnidraft.support.vectorMap
import io.omnidraft.sync.Channel
import io.omnidraft.sync.Device
import io.omnidraft.sync.Seen
import io.omnidraft.sync.SignedKind
import io.omnidraft.sync.SignedRecord
import io.omnidraft.sync.StoredFile
import io.omnidraft.sync.checkCurrent
import io.omnidraft.sync.pull
import io.omnidraft.sync.readInstalled
import io.omnidraft.sync.readSigned
import io.omnidraft.sync.writeSigned
import java.io.File
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** Runs `sync/record` and `sync/pull`: what a device signs and reads, with the faults. */
class LearningSyncVectorsTest : VectorsRun() {
    @TestFactory
    fun records(): List<DynamicTest> = folder("sync/record") { vector ->
        val channel = channel(vector.input["channel"].obj())
        if ("seed" in vector.input) checkWritten(vector, channel) else checkRead(vector, channel)
    }

    @TestFactory
    fun pulls(): List<DynamicTest> = folder("sync/pull") { vector ->
        inDirectory { checkPull(vector, it) }
    }

    private fun checkRead(vector: Vector, channel: Channel) {
        val given = vector.input
        val data = given["file"].hex()
        val seen = given["seen"]?.obj()?.let { Seen(it["number"].long(), it["sha256"].str()) }
        unlessRefused(vector, OmniDraftException::class.java) {
            val record = readSigned(data, kind(given), given["public_key"]?.hex()).record
            channel.check(record.channel, "it")
            seen?.check(record)
            checkCurrent(record, channel, given["now"].str())
            assertEquals(data.size.toLong(), record.size)
        }
    }

    /** The signature of Ed25519 is deterministic, so the whole file is. */
    private fun checkWritten(vector: Vector, channel: Channel) {
        val given = vector.input
        val seed = given["seed"].hex()
        val adapter = given["adapter"]?.hex()
        val cache = given["cache"]?.hex()
        val traces = given["traces"].list().map { it.hex() }
        val record = SignedRecord(
            kind(given), hexOf(publicKeyOf(seed)), channel, given["number"].long(), given["expires"].str(),
            given["accepted"].long(), adapter?.let { StoredFile.of(it) }, cache?.let { StoredFile.of(it) },
            traces.map { StoredFile.of(it) },
        )
        assertEquals(vector.expected["channel_id"], channel.id)
        assertEquals(vector.expected["file"], hexOf(writeSigned(record, listOfNotNull(adapter, cache) + traces, seed)))
    }

    private fun kind(given: Json): SignedKind = SignedKind.valueOf(given["kind"].str().uppercase())

    private fun checkPull(vector: Vector, place: File) {
        val given = vector.input
        val into = File(place, "device")
        given["installed"]?.let {
            into.mkdir()
            File(into, "current").writeText(it.str())
        }
        val map = vectorMap(given["map"].str())
        val models = AdapterPlace(
            "vectors", adapterEntry("drafter", given), adapterEntry("target", given),
            map.draftFingerprint, map.targetFingerprint,
        )
        val device = Device(models, map, into)
        unlessRefused(vector, OmniDraftException::class.java) {
            val signed = readSigned(given["file"].hex(), SignedKind.RELEASE, given["public_key"].hex())
            pull(signed, device, given["now"].str())
            val installed = checkNotNull(readInstalled(into)) { "nothing is installed" }
            assertEquals(setOf("current"), into.list().orEmpty().toSet() - installed.files)
        }
        val pointer = File(into, "current")
        assertEquals(vector.expected["pointer"], if (pointer.exists()) pointer.readText() else null, vector.why)
    }

    private fun channel(given: Json): Channel = Channel(
        given["base"].str(), given["target"].str(), given["draft_tokenizer"].str(), given["target_tokenizer"].str(),
    )
}
