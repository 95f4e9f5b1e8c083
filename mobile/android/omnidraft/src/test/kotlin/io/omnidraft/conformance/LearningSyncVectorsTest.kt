package io.omnidraft.conformance

import io.omnidraft.OmniDraftException
import io.omnidraft.bundle.Signature
import io.omnidraft.bundle.keyId
import io.omnidraft.sync.Channel
import io.omnidraft.sync.Device
import io.omnidraft.sync.Release
import io.omnidraft.sync.Seen
import io.omnidraft.sync.Store
import io.omnidraft.sync.StoredFile
import io.omnidraft.sync.checkRelease
import io.omnidraft.sync.decodePush
import io.omnidraft.sync.decodeRelease
import io.omnidraft.sync.encodePush
import io.omnidraft.sync.encodeRelease
import io.omnidraft.sync.pull
import io.omnidraft.sync.readInstalled
import io.omnidraft.ReleaseFolder
import io.omnidraft.models.AdapterPlace
import io.omnidraft.bundle.SIGNATURE_BYTES
import io.omnidraft.bundle.decode
import io.omnidraft.disk.hexOf
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.bundle.Part
import io.omnidraft.bundle.Site
import io.omnidraft.support.modelEntry
import io.omnidraft.support.vectorMap
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory
import java.io.File
import java.nio.file.Files
import java.security.KeyFactory
import java.security.interfaces.EdECPrivateKey
import java.security.spec.EdECPrivateKeySpec
import java.security.spec.NamedParameterSpec

/** Runs `sync/release`, `push` and `pull`: what a device reads of a store, with the faults. */
class LearningSyncVectorsTest : VectorsRun() {
    @TestFactory
    fun release(): List<DynamicTest> = folder("sync/release") { vector ->
        val given = vector.input
        val channel = channel(given["channel"].obj())
        if ("seed" in given) checkWritten(vector, channel) else checkRead(vector, channel)
    }

    @TestFactory
    fun push(): List<DynamicTest> = folder("sync/push") { vector ->
        val data = vector.input["file"].hex()
        val fault = vector.expected["fault"] as String?
        if (fault != null) {
            refused(fault) { decodePush(data) }
        } else {
            assertArrayEquals(data, encodePush(decodePush(data)))
        }
    }

    @TestFactory
    fun pulls(): List<DynamicTest> = folder("sync/pull") { vector ->
        val place = Files.createTempDirectory("omnidraft").toFile()
        try {
            checkPull(vector, place)
        } finally {
            place.deleteRecursively()
        }
    }

    private fun checkRead(vector: Vector, channel: Channel) {
        val given = vector.input
        val data = given["file"].hex()
        val key = given["public_key"]?.hex()
        val seen = given["seen"]?.obj()?.let { Seen(it["number"].long(), it["sha256"].str()) }
        val read = {
            val signed = decodeRelease(data, key)
            checkRelease(signed.release, channel, seen, given["now"].str())
            signed
        }
        val fault = vector.expected["fault"] as String? ?: return read().let { signed ->
            assertArrayEquals(data, encodeRelease(signed.release, decode(data.copyOf(SIGNATURE_BYTES))))
            assertEquals(key?.let { keyId(it) }, signed.keyId)
        }
        refused(fault) { read() }
    }

    /** The signature of Ed25519 is deterministic, so the whole file is. */
    private fun checkWritten(vector: Vector, channel: Channel) {
        val given = vector.input
        val release = Release(
            given["number"].long(), channel, given["created"].str(), given["expires"].str(),
            file(given["adapter"]), file(given["cache"]), given["accepted"].long(), given["devices"].long(),
        )
        val spec = EdECPrivateKeySpec(NamedParameterSpec.ED25519, given["seed"].hex())
        val signer = java.security.Signature.getInstance("Ed25519")
        signer.initSign(KeyFactory.getInstance("Ed25519").generatePrivate(spec) as EdECPrivateKey)
        signer.update(release.text)
        val written = encodeRelease(release, Signature(keyOf(vector), signer.sign()))
        assertEquals(vector.expected["channel_id"], channel.id)
        assertEquals(vector.expected["file"], hexOf(written))
    }

    /** The id of the key in the expected file: Java derives no public key from a seed. */
    private fun keyOf(vector: Vector): String = decode(vector.expected["file"].hex().copyOf(SIGNATURE_BYTES)).keyId

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
        val device = Device(models, map, into, given["public_key"]?.hex())
        val store = Store(ReleaseFolder(filled(place, given["store"])))
        val fault = vector.expected["fault"] as String?
        if (fault != null) {
            refused(fault) { pull(store, device, given["now"].str()) }
        } else {
            pull(store, device, given["now"].str())
            val installed = checkNotNull(readInstalled(into)) { "nothing is installed" }
            assertEquals((installed.files + "current").sorted(), into.list().orEmpty().sorted())
        }
        val pointer = File(into, "current")
        assertEquals(vector.expected["pointer"], if (pointer.exists()) pointer.readText() else null, vector.why)
    }

    /** A folder with the files of a store; one that cannot be read where there is no store. */
    private fun filled(place: File, files: Any?): File {
        if (files == null) {
            File(place, "file").writeBytes(ByteArray(0))
            return File(place, "file/store")
        }
        for ((path, data) in files.obj()) {
            val file = File(place, "store/$path")
            file.parentFile.mkdirs()
            file.writeBytes(data.hex())
        }
        return File(place, "store")
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

    private fun file(given: Any?): StoredFile? =
        given?.obj()?.let { StoredFile(it["sha256"].str(), it["bytes"].long()) }
}
