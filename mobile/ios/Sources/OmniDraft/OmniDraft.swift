import Foundation

/// Speculative decoding with one drafter for any target: the place where an app begins.
///
/// `import OmniDraftORT` beside `import OmniDraft` gives `OmniDraft.open(url)`, which runs the models with onnxruntime:
///
///     let model = try await OmniDraft.open(url)
///     let session = try await model.session()
///     for try await piece in session.chat("How many legs do 3 cats have?") { print(piece.text, terminator: "") }
public enum OmniDraft {
    /// Opens a bundle: checks its files and loads its models.
    ///
    /// The first opening hashes all files, and may measure for 2 s. The work runs on a queue of its own, since it blocks
    /// for longer than a thread of Swift's own may be held.
    ///
    /// - Parameters:
    ///   - url: the directory of the bundle.
    ///   - options: how it is opened.
    ///   - engine: runs the graphs; OmniDraftORT has one, and an `open` without this parameter.
    /// - Returns: the loaded models.
    /// - Throws: ``OmniDraftError``: the bundle is damaged, incomplete or unsigned, or needs more memory than there is.
    public static func open(
        _ url: URL, options: LoadOptions = LoadOptions(), engine: any InferenceEngine
    ) async throws -> LanguageModel {
        let directory = try pathOf(url, "url")
        let loaded = try await Worker("open").run { try openLoaded(directory, options: options, engine: engine) }
        return LanguageModel(loaded, publicKey: options.publicKey)
    }

    /// Unpacks a bundle that travels as an archive. A directory that holds the same bundle is used as it is.
    ///
    /// The app may be ended at any moment: then the directory before, the new one, or none is there. Cancelling the
    /// task ends the work, and leaves the same. A download goes on where it ended when it is asked for again,
    /// after the call before has returned.
    ///
    /// - Parameters:
    ///   - source: of the archive.
    ///   - url: the directory of the bundle.
    ///   - overwrite: whether another bundle at the place is replaced once the new one is whole; for an app whose update
    ///     brings a new bundle. Else it is refused, and stays.
    ///   - onProgress: gets the bytes that are done and all bytes, on a thread of the library.
    /// - Returns: the directory, for `open`.
    /// - Throws: ``OmniDraftError/archive(_:)``: the archive is refused, the place cannot be written, or another call
    ///   downloads it to the place (fault `in_use`).
    ///   ``OmniDraftError/bundle(_:)``: its manifest is refused. ``OmniDraftError/setting(_:)``: a size or an address
    ///   that no archive has. `CancellationError`: the task was cancelled.
    public static func unpack(
        _ source: BundleSource, into url: URL, overwrite: Bool = false,
        onProgress: @escaping @Sendable (_ done: Int, _ all: Int) -> Void = { _, _ in }
    ) async throws -> URL {
        let directory = try pathOf(url, "url")
        let isCancelled = Guarded(false)
        return try await withTaskCancellationHandler {
            do {
                let place = try await install(source, into: directory, overwrite: overwrite) { done, all in
                    if isCancelled.with({ $0 }) { throw CancellationError() }
                    onProgress(done, all)
                }
                return URL(fileURLWithPath: place, isDirectory: true)
            } catch {
                // A transfer that was cancelled ends as one that broke off.
                throw isCancelled.with { $0 } ? CancellationError() : error
            }
        } onCancel: {
            isCancelled.with { $0 = true }
        }
    }
}

/// The path of a place on this device.
///
/// - Throws: ``OmniDraftError/setting(_:)``: an address of another kind.
func pathOf(_ url: URL, _ name: String) throws -> String {
    if url.isFileURL { return url.path }
    throw settingError("\(name) \(url.absoluteString) is not a place on this device", "give a file URL")
}
