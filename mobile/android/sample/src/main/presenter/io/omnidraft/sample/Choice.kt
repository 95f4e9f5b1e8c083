package io.omnidraft.sample

import io.omnidraft.BundleSource

/**
 * A bundle that the user chose.
 *
 * @property name names its directory in the app's storage, after [nameOf].
 * @property source where its archive is; called where blocking is allowed.
 */
class Choice(val name: String, val source: () -> BundleSource)

/** The letters, digits, `-` and `_` of a name from outside, at most 40; `bundle` where nothing is left. */
fun nameOf(text: String): String {
    val name = text.substringAfterLast('/').removeSuffix(".zip")
    val kept = name.filter { it in 'a'..'z' || it in 'A'..'Z' || it in '0'..'9' || it == '-' || it == '_' }
    return kept.take(MOST_NAME).ifEmpty { "bundle" }
}

private const val MOST_NAME = 40

/** An archive on a web server, from what the user typed; the library refuses what is wrong. */
fun download(address: String, bytes: String, sha256: String): Choice = Choice(nameOf(address)) {
    BundleSource.Download(address, bytes.toLongOrNull() ?: 0, sha256.lowercase())
}
