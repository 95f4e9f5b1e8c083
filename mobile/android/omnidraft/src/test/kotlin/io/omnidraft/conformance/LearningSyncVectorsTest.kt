package io.omnidraft.conformance

import io.omnidraft.OmniDraftException
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.bundle.Part
import io.omnidraft.bundle.Site
import io.omnidraft.bundle.publicKeyOf
import io.omnidraft.disk.hexOf
import io.omnidraft.learning.inNewDirectory
import io.omnidraft.models.AdapterPlace
import io.omnidraft.support.modelEntry
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
import org.junit.jupiter.api.Assertions.assertThrows
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
        inNewDirectory { checkPull(vector, it) }
    }

    private fun checkRead(vector: Vector, channel: Channel) {
        val given = vector.input
        val data = given["file"].hex()
        val seen = given["seen"]?.obj()?.let { Seen(it["number"].long(), it["sha256"].str()) }
        val read = {
            val signed = readSigned(data, kind(given), given["public_key"]?.hex())
            channel.check(signed.record.channel, "it")
            seen?.check(signed.record)
            checkCurrent(signed.record, channel, given["now"].str())
            signed
        }
        val fault = vector.expected["fault"] as String?
        if (fault == null) assertEquals(data.size.toLong(), read().record.size) else refused(fault) { read() }
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
            "vectors", entry("drafter", given), entry("target", given),
            map.draftFingerprint, map.targetFingerprint,
        )
        val device = Device(models, map, into)
        val take = {
            val signed = readSigned(given["file"].hex(), SignedKind.RELEASE, given["public_key"].hex())
            pull(signed, device, given["now"].str())
        }
        val fault = vector.expected["fault"] as String?
        if (fault != null) {
            refused(fault) { take() }
        } else {
            take()
            val installed = checkNotNull(readInstalled(into)) { "nothing is installed" }
            assertEquals(setOf("current"), into.list().orEmpty().toSet() - installed.files)
        }
        val pointer = File(into, "current")
        assertEquals(vector.expected["pointer"], if (pointer.exists()) pointer.readText() else null, vector.why)
    }

    /** A model with the fields that concern adapters. */
    private fun entry(role: String, given: Json): ModelEntry {
        val model = given[role].obj()
        val lora = model["lora"]?.obj()?.let { fields ->
            LoraSites(fields["rank"]?.int(), fields["sites"].obj().mapValues { site(it.value.obj()) })
        }
        return modelEntry(role, 1, fingerprint = model["fingerprint"]?.str(), lora = lora)
    }

    private fun site(fields: Json): Site =
        Site(fields["inputs"].int(), fields["parts"].list().map { Part(it.list()[0].str(), it.list()[1].int()) })

    private fun refused(fault: String, read: () -> Unit) {
        val error = assertThrows(OmniDraftException::class.java) { read() }
        assertEquals(fault, error.fault, error.toString())
    }

    private fun channel(given: Json): Channel = Channel(
        given["base"].str(), given["target"].str(), given["draft_tokenizer"].str(), given["target_tokenizer"].str(),
    )
}
