package io.omnidraft.vocab

import io.omnidraft.conformance.int
import io.omnidraft.conformance.ints
import io.omnidraft.conformance.list
import io.omnidraft.conformance.obj
import io.omnidraft.conformance.str
import io.omnidraft.disk.parse
import java.io.File

/*
 * Writes an n-gram cache by operations from outside, so that a test in another language can read it:
 *
 *     java ... io.omnidraft.vocab.WriteFilesKt MAP OPERATIONS CACHE
 *
 * MAP is a vocabulary map. OPERATIONS is JSON: {"capacity": 8, "policy": "lfu", "do": [...]}, each operation being
 * {"learn": [target ids], "accepted": 1}, {"insert": target id}, {"prefill": true}, {"prune": 3} or {"merge": "another
 * cache"}.
 */
fun main(arguments: Array<String>) {
    val map = loadVocabMap(File(arguments[0]))
    val given = parse(File(arguments[1]).readBytes()).obj()
    var cache = NgramCache(map, given["capacity"].int(), given["policy"].str())
    for (operation in given["do"].list().map { it.obj() }) {
        when (operation.keys.first()) {
            "learn" -> cache.learn(operation["learn"].ints(), operation["accepted"].int())
            "insert" -> cache.insert(operation["insert"].int())
            "prefill" -> cache.prefill()
            "prune" -> cache.prune(operation["prune"].int())
            "merge" -> {
                val merged = merge(cache.table(), readTable(File(operation["merge"].str()), map))
                cache = NgramCache.ofTable(merged, map, cache.capacity, cache.policy)
            }
            else -> error("$operation is no operation")
        }
    }
    writeCache(File(arguments[2]), cache)
    println("${cache.size} entries, tick ${cache.tick}")
}
