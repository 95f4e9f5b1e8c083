package io.omnidraft.bundle

/* A bundle on disk: open it, verify every file, and read its manifest (spec/03-bundle.md). */

import io.omnidraft.BundleException
import io.omnidraft.chat.MAX_PROMPT
import io.omnidraft.chat.PromptTemplate
import io.omnidraft.chat.readPrompt
import io.omnidraft.decoding.Costs
import io.omnidraft.device.Machine
import io.omnidraft.device.Stamp
import io.omnidraft.device.StateDirectory
import io.omnidraft.device.readCosts
import io.omnidraft.device.readMachine
import io.omnidraft.disk.ValueError
import io.omnidraft.disk.at
import io.omnidraft.disk.mapping
import io.omnidraft.disk.text
import io.omnidraft.parts.FilePlaces
import io.omnidraft.parts.findPlaces
import java.io.File

internal data class Bundle(
    val path: File, // the directory
    val target: ModelEntry, // the model whose text is written
    val drafter: ModelEntry, // the model that proposes it; NO_DRAFTER where the bundle has none, which can only copy
    val prompt: PromptTemplate,
    val costs: Costs,
    val vocabMap: String,
    val manifest: Map<String, Any?>,
    val files: Map<String, Record> = emptyMap(), // size and hash of each file that the manifest lists, in its order
    val signedBy: String? = null, // id of the public key that the signature was checked with; null if no key was given
    val stamps: Map<String, Stamp> = emptyMap(), // size and times of each file before it was hashed
    val measuredOn: Machine? = null, // the machine that the costs were measured on; null where the manifest names none
    val found: FilePlaces? = null, // where the files are; null where all of them are in the directory
) {
    val places: FilePlaces get() = found ?: FilePlaces(path)

    val models: List<ModelEntry> get() = if (drafter.isAbsent) listOf(target) else listOf(target, drafter)

    /** The digest that names the manifest. */
    val seal: String get() = manifest["seal"] as String

    fun file(name: String): File = places.file(name)
}

/** Read and verify a bundle. */
internal fun openBundle(
    path: File, // the directory
    publicKey: ByteArray? = null,
    verify: Verify = Verify.FULL, // how the files are checked
    state: StateDirectory = StateDirectory.NONE, // the directory of what this device remembers, for Verify.STAMP
): Bundle {
    val key = publicKey?.let { readPublicKey(it) }
    val data = readManifest(path)
    if (key != null) verify(data, readSignature(path), key) // before any field of the manifest is used
    val bundle = describedBundle(path, data)
    val how = if (verify == Verify.AUTO) (if (key == null) Verify.STAMP else Verify.FULL) else verify
    val stamps = verifyFiles(bundle.places, bundle.files, bundle.seal, how, state)
    return bundle.copy(stamps = stamps, signedBy = key?.let { keyId(it) })
}

/** Whether a directory has each file of its bundle with the right size; no file is hashed. */
internal fun hasFiles(path: File): Boolean = try {
    val bundle = describedBundle(path, readManifest(path))
    bundle.files.all { (name, record) ->
        val file = bundle.places.place(name)
        bundle.places.index?.holds(name) == false || (file.isFile && file.length() == record.bytes)
    }
} catch (_: BundleException) {
    false
}

/** The bundle that the bytes of a manifest describe; the hashes of its files are not checked here. */
internal fun describedBundle(path: File, data: ByteArray, packed: Boolean = false): Bundle {
    val manifest = parseManifest(path, data)
    val fields = bundleOf(path, manifest)
    val files = checkFiles(File(path, MANIFEST), manifest["files"])
    val found = if (packed) null else findPlaces(path, data, files)
    val bundle = fields.copy(files = files, found = found)
    used(bundle, packed).firstOrNull { it !in files }?.let { throw noHash(File(path, MANIFEST), it) }
    return bundle
}

/** The fields of a manifest as values; no file is looked at. */
private fun bundleOf(path: File, manifest: Map<String, Any?>): Bundle = try {
    text(manifest.at("omnidraft"), BundleLimits.MAX_VERSION)
    val costs = mapping(manifest.at("costs"))
    Bundle(
        path = path,
        target = readEntry(mapping(manifest.at("target"))),
        drafter = manifest.at("drafter")?.let { readEntry(mapping(it)) } ?: NO_DRAFTER,
        prompt = promptOf(mapping(manifest.at("prompt"))),
        costs = readCosts(costs),
        vocabMap = text(manifest.at("vocab_map"), BundleLimits.MAX_PATH),
        manifest = manifest,
        measuredOn = costs["machine"]?.let { readMachine(mapping(it)) },
    )
} catch (error: ValueError) {
    val message = "${File(path, MANIFEST)} has a field of the wrong kind (${error.message})"
    throw BundleException("field", message, "run `omnidraft export` again", error)
}

/** The files that a runtime reads, each of which needs a hash. */
private fun used(bundle: Bundle, packed: Boolean): List<String> {
    val names = arrayListOf(bundle.vocabMap)
    (bundle.manifest["prompt"] as Map<*, *>)["template"]?.let { names += it as String }
    for (entry in bundle.models) {
        names += listOfNotNull(entry.graph, entry.tokenizer, entry.compiledTokenizer)
        names += entry.places.values.flatMap { it.files }
        entry.train?.let { names += it.graph }
        // onnxruntime reads this file by its name alone; a graph that is not listed is refused anyway.
        val weights = "${entry.graph}.data"
        if (!packed && entry.graph in bundle.files && bundle.places.place(weights).exists()) names += weights
    }
    return names
}

private fun promptOf(data: Map<String, Any?>): PromptTemplate {
    val prompt = readPrompt(data)
    data.at("template")?.let { text(it, BundleLimits.MAX_PATH) }
    for ((name, value) in mapping(data.at("names"), BundleLimits.MAX_NAMES)) {
        text(name, BundleLimits.MAX_NAME)
        text(value, MAX_PROMPT)
    }
    return prompt
}
