package io.omnidraft.parts

/* The file pack.json: which files of a bundle were left out for a device (spec/16-archive.md, "The index"). */

import io.omnidraft.disk.ValueError
import io.omnidraft.disk.array
import io.omnidraft.disk.at
import io.omnidraft.disk.hexadecimal
import io.omnidraft.disk.integer
import io.omnidraft.disk.mapping
import io.omnidraft.disk.parse
import io.omnidraft.disk.quoted
import io.omnidraft.disk.text

internal const val INDEX = "pack.json"
private const val FORMAT = "omnidraft.pack"
private const val VERSION = 1

internal val DEVICES: List<String> = listOf("desktop", "android-cpu", "android-qnn", "ios-cpu")
internal const val WITH = "with"
internal const val WITHOUT = "without"
internal const val ONLY = "only"

internal const val MAX_INDEX_BYTES = 1 shl 20
private const val MAX_LEFT_OUT = 1024
private const val MAX_PATH = 512

internal class PackIndexException(message: String, val fault: String = "index") : Exception(message)

/**
 * What a packed bundle holds.
 *
 * @property leftOut each listed file that the device does not need, with the devices that get it.
 */
internal data class PackIndex(
    val manifest: String, // SHA-256 of the bytes of manifest.json
    val device: String, // that the bundle was packed for, one of DEVICES
    val drafter: String = WITH, // `with` the files of the drafter, `without` them, or them `only`
    val leftOut: Map<String, List<String>> = emptyMap(),
) {
    /** Whether an archive with this index holds a file that the manifest lists. */
    fun holds(name: String): Boolean =
        name !in leftOut && (drafter == WITH || name.startsWith(DRAFTER) == (drafter == ONLY))
}

internal fun readIndex(data: ByteArray, manifest: String, files: Collection<String>): PackIndex {
    if (data.size > MAX_INDEX_BYTES) throw PackIndexException("it has more than $MAX_INDEX_BYTES bytes")
    val index = try {
        checkedIndex(mapping(parse(data)))
    } catch (error: ValueError) {
        throw PackIndexException(error.message.orEmpty())
    }
    if (index.manifest != manifest) throw PackIndexException("it belongs to another manifest")
    index.leftOut.keys.firstOrNull { it !in files }?.let {
        throw PackIndexException("the manifest does not list ${quoted(it)}")
    }
    return index
}

private fun checkedIndex(fields: Map<String, Any?>): PackIndex {
    if (fields["format"] != FORMAT) throw PackIndexException("it is not an $FORMAT index")
    val version = integer(fields["version"], 0)
    if (version != VERSION) throw PackIndexException("it has version $version and not $VERSION", "version")
    val leftOut = mapping(fields.at("left_out"), MAX_LEFT_OUT).entries.associate { (name, devices) ->
        text(name, MAX_PATH) to array(devices, DEVICES.size).map { oneOf(it, DEVICES) }
    }
    return PackIndex(
        manifest = hexadecimal(fields.at("manifest"), 64),
        device = oneOf(fields.at("device"), DEVICES),
        drafter = oneOf(fields.at("drafter"), listOf(WITH, WITHOUT, ONLY)),
        leftOut = leftOut,
    )
}

private fun oneOf(value: Any?, names: List<String>): String {
    val name = text(value)
    if (name !in names) throw ValueError("${quoted(name)} is not one of ${names.joinToString()}")
    return name
}
