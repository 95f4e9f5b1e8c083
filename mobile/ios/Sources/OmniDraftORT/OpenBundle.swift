import Foundation
import OmniDraft

extension OmniDraft {
    /// Opens a bundle with onnxruntime: checks its files and loads its models.
    ///
    /// The first opening hashes all files, and may measure for 2 s. It blocks no thread of Swift's own.
    ///
    /// - Parameters:
    ///   - url: the directory of the bundle.
    ///   - options: how it is opened.
    /// - Returns: the loaded models.
    /// - Throws: `OmniDraftError`: the bundle is damaged, incomplete or unsigned, or needs more memory than
    ///   there is.
    public static func open(_ url: URL, options: LoadOptions = LoadOptions()) async throws -> LanguageModel {
        try await open(url, options: options, engine: OrtEngine.shared())
    }
}
