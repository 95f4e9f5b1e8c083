package io.omnidraft.conformance

import io.omnidraft.BundleException
import io.omnidraft.SignatureException
import io.omnidraft.archive.openArchive
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.GraphFileException
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.MANIFEST
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.bundle.Record
import io.omnidraft.bundle.Signature
import io.omnidraft.bundle.checkHashes
import io.omnidraft.bundle.decode
import io.omnidraft.bundle.encode
import io.omnidraft.bundle.externalFiles
import io.omnidraft.bundle.faultOf
import io.omnidraft.bundle.fileSha256
import io.omnidraft.bundle.inDirectory
import io.omnidraft.bundle.keyId
import io.omnidraft.bundle.openBundle
import io.omnidraft.bundle.sealOf
import io.omnidraft.bundle.verify
import io.omnidraft.chat.PromptTemplate
import io.omnidraft.decoding.Costs
import io.omnidraft.device.CostsSource
import io.omnidraft.device.Machine
import io.omnidraft.device.Measure
import io.omnidraft.device.costsKey
import io.omnidraft.device.costsRecord
import io.omnidraft.device.cpuOf
import io.omnidraft.device.parseCosts
import io.omnidraft.device.readMachine
import io.omnidraft.device.sourceOfCosts
import io.omnidraft.disk.hexOf
import io.omnidraft.disk.parse
import io.omnidraft.disk.sha256
import io.omnidraft.parts.INDEX
import io.omnidraft.parts.PackIndexException
import io.omnidraft.parts.drafterAddress
import io.omnidraft.parts.readIndex
import java.io.ByteArrayOutputStream
import java.io.File
import java.nio.ByteBuffer
import java.security.KeyFactory
import java.security.spec.PKCS8EncodedKeySpec
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** Runners of `bundle`, `signing`, `costs` and `archive`. */
class BundleVectorsTest : VectorsRun() {
    @TestFactory
    fun bundle(): List<DynamicTest> = folder("bundle") { vector ->
        val files = HashMap<String, ByteArray?>()
        jsonOf("bundle/files.json").list().forEach { files[it.str()] = it.str().toByteArray() }
        val manifest = manifestOf(vector.input)
        files[MANIFEST] = manifest
        vector.input.getValue("files").obj().forEach { (name, data) -> files[name] = data?.hex() }
        inDirectory { place ->
            files.forEach { (name, data) -> if (data != null) write(File(place, name), data) }
            val bundle = unlessRefused(vector, BundleException::class.java) { openBundle(place) } ?: return@inDirectory
            val read = vector.expected.getValue("read").obj()
            assertSame(vector, "the seal", read["seal"], sealOf(manifest))
            assertSame(vector, "what was read", numbers(read), numbers(readOf(bundle)))
        }
    }

    @TestFactory
    fun graph(): List<DynamicTest> = folder("bundle/graph") { vector ->
        val data = ByteBuffer.wrap(vector.input["graph"].hex())
        val files = unlessRefused(vector, GraphFileException::class.java) { externalFiles(data).sorted() }
        assertSame(vector, "the files", vector.expected["files"], files)
    }

    @TestFactory
    fun signing(): List<DynamicTest> = folder("signing") { vector ->
        val manifest = vector.input["manifest"].hex()
        val key = vector.input["public_key"].hex()
        if ("seed" in vector.input) {
            checkSigner(vector, manifest, key)
        } else {
            unlessRefused(vector, SignatureException::class.java) {
                verify(manifest, vector.input["file"]?.let { decode(it.hex()) }, key)
            }
        }
    }

    /** Ed25519 is deterministic, so a signer must write exactly this file, and it is valid. */
    private fun checkSigner(vector: Vector, manifest: ByteArray, key: ByteArray) {
        val info = "302e020100300506032b657004220420".hex() + vector.input["seed"].hex()
        val signer = java.security.Signature.getInstance("Ed25519")
        signer.initSign(KeyFactory.getInstance("Ed25519").generatePrivate(PKCS8EncodedKeySpec(info)))
        signer.update(manifest)
        val file = encode(Signature(keyId(key), signer.sign()))
        assertSame(vector, "the key", vector.expected["key"], keyId(key))
        assertSame(vector, "the file", vector.expected["file"], hexOf(file))
        verify(manifest, decode(file), key)
    }

    @TestFactory
    fun costs(): List<DynamicTest> = folder("costs") { vector ->
        val given = vector.input
        when {
            "cpuinfo" in given ->
                assertSame(vector, "the processor", vector.expected["cpu"], cpuOf(given["cpuinfo"].str()))
            "measure" in given -> assertSame(vector, "the source", vector.expected["source"], source(given))
            "record" in given -> {
                val read = parseCosts(given["record"].str().toByteArray(), given["seal"].str(), machine(given))
                assertSame(vector, "the costs", vector.expected["costs"]?.let { numbers(it) }, numbers(fields(read)))
            }
            else -> {
                val record = costsRecord(given["seal"].str(), machine(given), givenCosts(given["costs"].obj()))
                assertSame(vector, "the record", vector.expected["record"], String(record))
                assertSame(vector, "the key", vector.expected["key"], costsKey(given["seal"].str(), machine(given)))
                val again = parseCosts(record, given["seal"].str(), machine(given))
                assertSame(vector, "the costs", numbers(given["costs"]), numbers(fields(again)))
            }
        }
    }

    private fun source(given: Json): String {
        val measuredOn = given["measured_on"]?.let { readMachine(it.obj()) }
        val measure = Measure.valueOf(given["measure"].str().uppercase())
        return when (sourceOfCosts(measure, measuredOn, machine(given), given["kept"].bool())) {
            CostsSource.MANIFEST -> "manifest"
            CostsSource.KEPT -> "kept"
            CostsSource.MEASURED -> "measure"
        }
    }

    @TestFactory
    fun valid(): List<DynamicTest> = folder("archive/valid") { vector ->
        withArchive(vector) { file ->
            val archive = openArchive(file)
            checkHashes(archive)
            val entries = archive.entries.values.map { listOf(it.name, it.begin, it.size) }
            assertSame(vector, "the entries", vector.expected["entries"], entries)
            for (name in archive.files) { // the content of each is its name
                val mapped = archive.mapped(name)
                assertSame(vector, name, name.toByteArray(), ByteArray(mapped.remaining()).also { mapped.get(it) })
            }
            val index = archive.index
            val read = mapOf(
                "entries" to entries, "device" to index.device, "drafter" to index.drafter,
                "left_out" to index.leftOut, "address" to archive.address,
            )
            assertSame(vector, "the index", vector.expected, read)
        }
    }

    @TestFactory
    fun invalid(): List<DynamicTest> = folder("archive/invalid") { vector ->
        withArchive(vector) { file ->
            assertNull(unlessRefused(vector, BundleException::class.java) { checkHashes(openArchive(file)) }, vector.why)
        }
    }

    @TestFactory
    fun index(): List<DynamicTest> = folder("archive/index") { vector ->
        val names = vector.input["files"].list().map { it.str() }
        val index = unlessRefused(vector, PackIndexException::class.java) {
            readIndex(vector.input["text"].str().toByteArray(), vector.input["manifest"].str(), names)
        }
        assertSame(vector, "what it holds", vector.expected["holds"], index?.let { names.filter(it::holds) })
    }

    @TestFactory
    fun address(): List<DynamicTest> = folder("archive/address") { vector ->
        assertSame(vector, "the address", vector.expected["address"], drafterAddress(records(vector.input["files"])))
    }

    @TestFactory
    fun open(): List<DynamicTest> = folder("archive/open") { vector ->
        inDirectory { folder ->
            val manifest = vector.input["text"].str().toByteArray()
            val records = records(parse(manifest).obj()["files"])
            val bundle = File(folder, "bundle")
            val shared = File(folder, "drafters/" + drafterAddress(records))
            vector.input["own"].list().forEach { write(File(bundle, it.str()), it.str().toByteArray()) }
            vector.input["shared"].list().forEach {
                write(File(shared, it.str().removePrefix("drafter/")), it.str().toByteArray())
            }
            write(File(bundle, MANIFEST), manifest)
            vector.input["index"]?.let { write(File(bundle, INDEX), it.str().toByteArray()) }
            val opened = unlessRefused(vector, BundleException::class.java) { openBundle(bundle) } ?: return@inDirectory
            for ((name, where) in vector.expected["place"].obj()) {
                checkPlace(vector, opened, name, where.str(), shared)
            }
        }
    }

    private fun checkPlace(vector: Vector, opened: Bundle, name: String, where: String, shared: File) {
        if (where == "left_out") {
            assertSame(vector, name, where, faultOf { opened.file(name) })
            return
        }
        val file = opened.file(name)
        assertSame(vector, name, opened.files.getValue(name).sha256, fileSha256(file))
        assertSame(vector, name, true, file.startsWith(if (where == "bundle") opened.path else shared))
    }
}

private fun write(file: File, data: ByteArray) {
    file.parentFile.mkdirs()
    file.writeBytes(data)
}

/** The manifest of a vector: its text, or another text with a change and a right seal. */
private fun manifestOf(given: Json): ByteArray {
    if ("base" !in given) {
        val text = if ("bytes" in given) given["bytes"].hex() else given["text"].str().toByteArray()
        return text + ByteArray(given["spaces"]?.int() ?: 0) { ' '.code.toByte() }
    }
    val body = File(ROOT, "bundle/" + given["base"].str()).readBytes()
    val (start, end) = given["cut"].ints().toList()
    val rest = "\",".toByteArray() + body.copyOfRange(1, start) + given["insert"].str().toByteArray() +
        body.copyOfRange(end, body.size)
    return "{\"seal\": \"${hexOf(sha256(rest))}".toByteArray() + rest
}

private fun readOf(bundle: Bundle): Json = mapOf(
    "seal" to bundle.seal,
    "target" to model(bundle.target),
    "drafter" to model(bundle.drafter),
    "prompt" to prompt(bundle.prompt),
    "costs" to fields(bundle.costs)!! + ("acceptance" to bundle.costs.acceptance),
    "measured_on" to bundle.measuredOn?.asJson(),
    "vocab_map" to bundle.vocabMap,
)

private fun model(entry: ModelEntry): Json = mapOf(
    "graph" to entry.graph,
    "tokenizer" to entry.tokenizer,
    "tokenizer_fingerprint" to entry.tokenizerFingerprint,
    "vocab_size" to entry.vocabSize,
    "bos_id" to entry.bosId,
    "parameters" to entry.parameters,
    "layout" to entry.layout,
    "fingerprint" to entry.fingerprint,
    "kv" to mapOf(
        "num_layers" to entry.kv.numLayers, "num_kv_heads" to entry.kv.numKvHeads,
        "head_dim" to entry.kv.headDim, "max_length" to entry.kv.maxLength,
        "type" to entry.kv.type.word,
    ),
    "eos_ids" to entry.eosIds,
    "lora" to entry.lora?.let { lora(it) },
    "train" to entry.train?.rank,
    "places" to entry.places.keys.toList(),
)

private fun lora(sites: LoraSites): Json = mapOf(
    "rank" to sites.rank,
    "sites" to sites.sites.mapValues { (_, site) ->
        mapOf("inputs" to site.inputs, "parts" to site.parts.map { listOf(it.name, it.width) })
    },
)

private fun prompt(template: PromptTemplate): Json = mapOf(
    "prefix" to template.prefix,
    "suffix" to template.suffix,
    "between" to template.between,
    "after" to template.after,
    "begin" to template.begin,
    "lead" to template.lead,
    "system" to template.system?.let { mapOf("before" to it.before, "after" to it.after) },
    "think" to template.think?.let {
        mapOf("open" to it.open, "close" to it.close, "earlier" to it.earlier.word)
    },
    "trim" to template.trim.map { it.word },
)

/** A machine of a vector; a vector may name one that no manifest could. */
private fun machine(given: Json): Machine = readMachine(given["machine"].obj())

private fun givenCosts(given: Json): Costs = Costs(given["target"].nums(), given["draft"].num(), given["host"].num())

private fun fields(costs: Costs?): Json? =
    costs?.let { mapOf("target" to it.target.toList(), "draft" to it.draft, "host" to it.host) }

/** All numbers as Double: JSON does not tell 0 from 0.0. */
private fun numbers(value: Any?): Any? = when (value) {
    is Number -> value.toDouble()
    is List<*> -> value.map { numbers(it) }
    is Map<*, *> -> value.mapValues { numbers(it.value) }
    else -> value
}

private fun records(files: Any?): Map<String, Record> =
    files.obj().mapValues { (_, each) -> Record(each.obj()["sha256"].str(), each.obj()["bytes"].long()) }

private fun withArchive(vector: Vector, run: (File) -> Unit) = inDirectory { place ->
    val file = File(place, "archive.zip")
    file.writeBytes(archiveOf(vector.input))
    run(file)
}

/** The archive of a vector: a base, with edits from the last to the first. */
internal fun archiveOf(given: Json): ByteArray {
    var data = unrolled(jsonOf("archive/${given["base"].str()}.json").obj()["runs"])
    for (edit in given["edits"].list().asReversed()) {
        val (begin, end, runs) = edit.list()
        data = data.copyOf(begin.int()) + unrolled(runs) + data.copyOfRange(end.int(), data.size)
    }
    return data
}

private fun unrolled(runs: Any?): ByteArray {
    val out = ByteArrayOutputStream()
    for (run in runs.list()) out.write(if (run is Long) ByteArray(run.int()) else run.hex())
    return out.toByteArray()
}
