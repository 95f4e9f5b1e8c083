package io.omnidraft.disk

/* Whether a directory is this user's own, so that its files may be trusted and deleted. */

import java.io.File
import java.io.IOException
import java.nio.file.Files
import java.nio.file.LinkOption
import java.nio.file.Path
import java.nio.file.Paths

private const val OTHERS = 63 // the bits of a mode that give rights to other users
private const val OTHERS_WRITE = 18 // those to write

/**
 * Whether a path is a directory and no link, of this user, which no other user can write.
 *
 * @param isPrivate whether other users must not be able to read it either.
 * @throws IOException it is absent.
 */
internal fun isOwnDirectory(place: File, isPrivate: Boolean = false): Boolean {
    val path = pathOf(place)
    if (!Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) return false
    val of = unix(path, "uid,mode", LinkOption.NOFOLLOW_LINKS) ?: return true
    val user = unix(Paths.get("/proc/self"), "uid") ?: return false
    return of["uid"] == user["uid"] && (of["mode"] as Int and (if (isPrivate) OTHERS else OTHERS_WRITE)) == 0
}

/** What a file system of Unix says of a file; null where it is of another kind. */
internal fun unix(path: Path, attributes: String, vararg options: LinkOption): Map<String, Any?>? = try {
    Files.readAttributes(path, "unix:$attributes", *options)
} catch (_: UnsupportedOperationException) {
    null // no such view
} catch (_: IllegalArgumentException) {
    null // the view has no such attribute
}
