package io.omnidraft.support

import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.KvShape
import io.omnidraft.bundle.LoraSites
import io.omnidraft.bundle.ModelEntry
import io.omnidraft.bundle.Record
import io.omnidraft.chat.PromptTemplate
import io.omnidraft.conformance.Json
import io.omnidraft.conformance.ROOT
import io.omnidraft.conformance.obj
import io.omnidraft.conformance.str
import io.omnidraft.decoding.Costs
import io.omnidraft.models.Graph
import io.omnidraft.session.LoadedBundle
import io.omnidraft.session.Session
import io.omnidraft.session.SharedGraph
import io.omnidraft.vocab.tokenizer.CompiledTokenizer
import java.io.File

/** A model of a bundle with the fields that a test is about. */
internal fun modelEntry(
    role: String,
    vocabSize: Int,
    tokenizerFingerprint: String = "",
    fingerprint: String? = null,
    lora: LoraSites? = null,
): ModelEntry = ModelEntry(
    source = role,
    architecture = "Table",
    graph = "$role/cpu/model.onnx",
    tokenizer = role,
    kv = KvShape(1, 1, 1, 64),
    vocabSize = vocabSize,
    quantization = "fp32",
    bosId = null,
    eosIds = emptyList(),
    parameters = 1,
    fingerprint = fingerprint,
    lora = lora,
    tokenizerFingerprint = tokenizerFingerprint,
)

/** Real sessions on the graphs of `generate`. */
internal object TableSessions {
    private val loaded = HashMap<String, List<SharedGraph>>()
    private val tokenizer by lazy { CompiledTokenizer.fromFile(File(ROOT, "tokenize/byte_level.tokenizer.bin")) }

    /** A session of the bundle that a vector describes; its tokenizers are not used. */
    fun session(given: Json): Session {
        val map = vectorMap(given["map"].str())
        val identity = given["identity"].obj()
        check(identity["drafter_adapter"] == null && identity["target_adapter"] == null)
        val (target, drafter) = loaded.getOrPut(given["map"].str()) {
            listOf("target" to map.targetSize, "drafter" to map.draftSize).map { (role, size) ->
                SharedGraph { Graph(File(ROOT, "generate/$role.onnx"), KvShape(1, 1, 1, 64), size) }
            }
        }
        val bundle = Bundle(
            path = File("vectors"),
            target = modelEntry("target", map.targetSize, identity["target_fingerprint"].str()),
            drafter = modelEntry("drafter", map.draftSize, identity["draft_fingerprint"].str()),
            prompt = PromptTemplate("", "", "", ""),
            costs = Costs(doubleArrayOf(0.001), 0.001, 0.0),
            vocabMap = "map",
            manifest = emptyMap(),
            files = identity["graphs"].obj().mapValues { Record(it.value.str(), 1) },
        )
        return Session(LoadedBundle(bundle, target, tokenizer, map, drafter, tokenizer))
    }
}
