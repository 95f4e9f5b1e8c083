package io.omnidraft.vocab

import io.omnidraft.disk.array
import io.omnidraft.disk.integer
import io.omnidraft.disk.mapping
import io.omnidraft.disk.parse
import io.omnidraft.disk.text
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
    val given = mapping(parse(File(arguments[1]).readBytes()))
    var cache = NgramCache(map, integer(given["capacity"], 1), text(given["policy"]))
    for (operation in array(given["do"]).map { mapping(it) }) {
        when (operation.keys.first()) {
            "learn" -> {
                val emitted = array(operation["learn"]).map { integer(it, 0) }.toIntArray()
                cache.learn(emitted, integer(operation["accepted"], 0))
            }
            "insert" -> cache.insert(integer(operation["insert"], 0))
            "prefill" -> cache.prefill()
            "prune" -> cache.prune(integer(operation["prune"], 0))
            "merge" -> {
                val merged = merge(cache.table(), readTable(File(text(operation["merge"])), map))
                cache = NgramCache.ofTable(merged, map, cache.capacity, cache.policy)
            }
            else -> error("$operation is no operation")
        }
    }
    writeCache(File(arguments[2]), cache)
    println("${cache.size} entries, tick ${cache.tick}")
}
