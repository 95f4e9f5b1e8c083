// The releases of a device beside what it learned itself: which adapter is in use, going back, and forgetting.

/// The directory of what was pulled; see `Installed.swift`.
struct DeviceReleases: Sendable {
    /// The path; its parent exists.
    let place: String

    init(_ place: String) { self.place = place }

    /// The adapter in use; nil for none.
    ///
    /// - Throws: ``OmniDraftError/sync(_:)``: the pointer cannot be read, or `checksum`: the file was changed.
    func adapter() throws -> Adapter? {
        guard let current = try readInstalled(place)?.current else { return nil }
        return try decodeAdapter(Bytes(inUse(place, current)))
    }

    /// Use the adapter that was used before again.
    ///
    /// - Parameter own: the learned adapter, if that is in use now; without a release, that before it is none of this
    ///   directory.
    /// - Throws: ``OmniDraftError/sync(_:)`` `absent`: no adapter is in use; `in_use` or `unwritable`.
    func goBack(own: Adapter?) throws {
        if let own {
            guard try readInstalled(place) != nil else { return }
            try claimedDirectory(place) { try putOwn(own) }
        }
        try rollBack(place)
    }

    /// Forget the adapters that the device learned itself; the caller deletes its other traces of them.
    ///
    /// - Throws: ``OmniDraftError/sync(_:)``: the directory is in use, or cannot be read or written.
    func forgetOwn() throws {
        guard let before = try readInstalled(place) else { return }
        try claimedDirectory(place) {
            var state = before
            if let current = before.current, current.number == 0 { state.current = nil }
            if let previous = before.previous, previous.number == 0 { state.previous = nil }
            if state != before { try install(place, state) }
            tidy(place, state)
        }
    }

    private func putOwn(_ own: Adapter) throws {
        guard let state = try readInstalled(place) else { return }
        let file = try keep(place, encodeAdapter(own))
        try install(place, state.switched(Used(number: 0, file: file)))
    }
}
