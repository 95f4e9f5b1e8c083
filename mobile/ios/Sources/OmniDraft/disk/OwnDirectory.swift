import Foundation

// Whether a directory is this user's own, so that its files may be trusted and deleted.

private let others: mode_t = 0o077  // the bits of a mode that give rights to other users
private let othersWrite: mode_t = 0o022  // those to write

/// Whether a path is a directory and no link, of this user, which no other user can write.
///
/// - Parameter isPrivate: whether other users must not be able to read it either.
func isOwnDirectory(_ place: String, isPrivate: Bool = false) -> Bool {
    var status = stat()
    if place.utf8.contains(0) || lstat(place, &status) != 0 || status.st_mode & S_IFMT != S_IFDIR { return false }
    return status.st_uid == geteuid() && status.st_mode & (isPrivate ? others : othersWrite) == 0
}
