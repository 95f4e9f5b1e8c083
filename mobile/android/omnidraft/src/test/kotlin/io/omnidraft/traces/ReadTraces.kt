package io.omnidraft.traces

import io.omnidraft.support.jsonText
import io.omnidraft.support.segmentJson
import java.io.File

/** Reads the trace at the first argument, and writes its segments as JSON into the file of the second. */
internal object ReadTraces {
    @JvmStatic
    fun main(arguments: Array<String>) {
        val (place, out) = arguments.map { File(it) }
        val segments = readSegments(place).map { (file, segment) -> segmentJson(segment) + ("file" to file.name) }
        out.writeText(jsonText(segments.toList()))
    }
}
