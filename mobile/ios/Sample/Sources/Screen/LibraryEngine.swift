import Foundation
import OmniDraft
import OmniDraftORT

// Below the directory of the library, and whether backups have them.
private let folders = [
    "bundles": false, "traces": false, "state": false, "caches": true, "sessions": true, "learned": true,
]

/// The library, with the places of spec/08-phones.md.
struct LibraryEngine: Engine {
    let inApp: [Choice]
    /// The directory `omnidraft` in the app's Application Support.
    private let root: URL
    private let config: GenerationConfig
    private let provider: ExecutionProvider

    /// - Parameters:
    ///   - root: see ``root``.
    ///   - inApp: the bundles that the app brings along.
    ///   - config: of each answer; the mode is that of the speed.
    ///   - provider: where the models run.
    init(
        root: URL, inApp: [Choice] = [], config: GenerationConfig = GenerationConfig(maxNewTokens: 256),
        provider: ExecutionProvider = .cpu
    ) {
        self.root = root
        self.inApp = inApp
        self.config = config
        self.provider = provider
    }

    /// With the places of an app, the bundles in the folder `Bundles` of its resources, and the provider that the
    /// environment names (`OMNIDRAFT_PROVIDER`), for a developer.
    static func ofApp() -> LibraryEngine {
        let home = URL(fileURLWithPath: NSHomeDirectory(), isDirectory: true)
        let support = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask).first ?? home
        let resources = Bundle.main.resourceURL?.appendingPathComponent("Bundles", isDirectory: true)
        return LibraryEngine(
            root: support.appendingPathComponent("omnidraft", isDirectory: true),
            inApp: resources.map(Choice.inApp) ?? [],
            provider: ProcessInfo.processInfo.environment["OMNIDRAFT_PROVIDER"].flatMap(ExecutionProvider.init) ?? .cpu)
    }

    var learner: Choice? {
        guard let name = learnerFile.name else { return nil }
        let unpacked = place("bundles", name)
        let isUnpacked = FileManager.default.fileExists(atPath: unpacked.appendingPathComponent("manifest.json").path)
        return isUnpacked ? Choice(name: name, place: .directory(unpacked)) : inApp.first { $0.name == name }
    }

    func open(
        _ choice: Choice, onProgress: @escaping @Sendable (_ done: Int, _ all: Int) -> Void
    ) async throws -> any Talk {
        for (folder, inBackup) in folders {
            try makeDirectory(root.appendingPathComponent(folder, isDirectory: true), backup: inBackup)
        }
        let directory = try await unpacked(choice, onProgress)
        let state = root.appendingPathComponent("state", isDirectory: true)
        let options = LoadOptions(provider: provider, freeMemory: freeMemory(), state: state)
        let model = try await OmniDraft.open(directory, options: options)
        let cache = place("caches", choice.name + ".odc")
        let session = try await model.session(
            SessionOptions(cache: cache, traces: place("traces", choice.name), learned: place("learned", choice.name)))
        let saved = place("sessions", choice.name + ".session")
        var notices: [String] = []
        if FileManager.default.fileExists(atPath: saved.path) {
            notices.append(await said { try await session.load(from: saved) } ?? "the conversation before goes on")
        }
        let wants = learnerFile.name == choice.name
        let refusal = wants ? await said { try await session.learning.on() } : nil
        let said = (model.notices + session.notices).map(\.message) + notices + [refusal].compactMap { $0 }
        return LibraryTalk(
            model: model, directory: directory, session: session, config: config, saved: saved, cache: cache,
            learner: learnerFile, name: choice.name,
            notice: said.isEmpty ? nil : said.joined(separator: "; "), learns: wants && refusal == nil)
    }

    private func unpacked(
        _ choice: Choice, _ onProgress: @escaping @Sendable (_ done: Int, _ all: Int) -> Void
    ) async throws -> URL {
        defer { choice.done() }
        switch choice.place {
        case .directory(let url): return url
        case .archive(let source):
            return try await OmniDraft.unpack(
                source, into: place("bundles", choice.name), overwrite: true, onProgress: onProgress)
        }
    }

    private var learnerFile: LearnerFile { LearnerFile(url: root.appendingPathComponent("learner")) }

    private func place(_ folder: String, _ name: String) -> URL {
        root.appendingPathComponent(folder, isDirectory: true).appendingPathComponent(name)
    }
}

private let benchmarkPrompt = "How many legs do 3 cats and 2 birds have? Think step by step."

/// What a benchmark names of a bundle's manifest.
private struct Manifest: Decodable {
    struct Target: Decodable {
        let quantization: String
    }

    let target: Target
}

/// What a refusal says; nil where nothing is refused.
private func said(_ call: () async throws -> Void) async -> String? {
    do {
        try await call()
        return nil
    } catch {
        return (error as? OmniDraftError)?.description ?? error.localizedDescription
    }
}

private struct LibraryTalk: Talk {
    let model: LanguageModel
    let directory: URL
    let session: TextSession
    let config: GenerationConfig
    let saved: URL
    let cache: URL
    let learner: LearnerFile
    let name: String
    let notice: String?
    let learns: Bool

    var stats: Stats { session.stats }
    var stopReason: StopReason? { session.stopReason }

    func answer(_ message: String, _ speed: Speed) -> AsyncThrowingStream<Piece, any Error> {
        var config = config
        config.mode = speed == .plain ? .plain : .trie
        return session.chat(message, config)
    }

    func save() async throws {
        try await session.save(to: saved)
        try await session.saveCache(to: cache)
    }

    func cancel() { session.cancel() }

    func learn(_ isOn: Bool) async throws {
        if isOn { try await session.learning.on() } else { await session.learning.off() }
        try learner.write(isOn ? name : nil)
    }

    func step(seconds: Double) async throws -> LearnOutcome {
        try await session.learning.step(seconds: seconds, freeMemory: freeMemory())
    }

    func wipe() async throws {
        try await session.learning.wipe()
        try learner.write(nil)
    }

    func benchmark(heat: Int) async throws -> Benchmark {
        let data = try Data(contentsOf: directory.appendingPathComponent("manifest.json"))
        let manifest = try JSONDecoder().decode(Manifest.self, from: data)
        let session = try await model.session()
        var config = config
        (config.ignoreEos, config.temperature) = (true, 0)
        var measured: [Stats] = []
        for mode in [GenerationConfig.Mode.plain, .trie] {
            config.mode = mode
            measured.append(try await session.result(of: session.generate(benchmarkPrompt, config)).stats)
        }
        return Benchmark(
            bundle: name, form: manifest.target.quantization, plain: measured[0], drafted: measured[1], heat: heat)
    }

    func throttle(_ level: Int) { session.throttle(level) }
    func dropDrafter() { session.dropDrafter() }
    func loadDrafter() async throws { try await session.loadDrafter() }
}
