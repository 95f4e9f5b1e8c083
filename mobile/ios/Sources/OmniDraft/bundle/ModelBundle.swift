// A bundle on disk: open it, verify every file, and read its manifest (spec/03-bundle.md).

struct ModelBundle: Sendable {
    let path: String
    /// The model whose text is written.
    var target: ModelEntry
    var drafter: ModelEntry
    /// The compiled chat template.
    let prompt: PromptTemplate
    /// Measured at export.
    var costs: Costs
    let vocabMap: String
    /// The whole manifest, parsed.
    let manifest: JsonObject
    /// Size and hash of each file that the manifest lists, in its order.
    var files = ByName<FileRecord>()
    /// Id of the public key that the signature was checked with; nil if no key was given.
    var signedBy: String?
    /// Size and times of each file before it was hashed.
    var stamps = ByName<Stamp>()
    /// The machine that the costs were measured on; nil where the manifest names none.
    let measuredOn: Machine?
    /// Where the files are; nil where all of them are in the directory.
    var found: FilePlaces?

    var places: FilePlaces { found ?? FilePlaces(path: path) }

    var models: [ModelEntry] { drafter.isAbsent ? [target] : [target, drafter] }

    /// The digest that names the manifest.
    var seal: String {
        // A manifest whose seal is no text was refused.
        if case .string(let seal)? = manifest["seal"] { return seal }
        return ""
    }

    /// Path of a file of the bundle.
    ///
    /// - Throws: ``OmniDraftError/bundle(_:)``: the file was left out when the bundle was packed for a device.
    func file(_ name: String) throws -> String { try places.file(name) }
}

/// Read and verify a bundle.
///
/// - Parameter publicKey: of the signer; a bundle without a signature by this key is refused. Nil checks nothing.
func openBundle(
    _ path: String, publicKey: [UInt8]? = nil, verify: Verify = .full, state: StateDirectory = .none
) throws -> ModelBundle {
    let key = try publicKey.map(readPublicKey)
    let data = try readManifest(path)
    // The signature is checked before any field of the manifest is used.
    if let key { try verifySignature(data, readSignature(path), publicKey: key) }
    var bundle = try describedBundle(path, data)
    let how = verify == .auto ? (key == nil ? .stamp : .full) : verify
    bundle.stamps = try verifyFiles(bundle.places, files: bundle.files, seal: bundle.seal, verify: how, state: state)
    bundle.signedBy = key.map(keyId)
    return bundle
}

/// Whether a directory has each file of its bundle with the right size; no file is hashed.
func hasFiles(_ path: String) -> Bool {
    guard let data = try? readManifest(path), let bundle = try? describedBundle(path, data) else { return false }
    return bundle.files.members.allSatisfy { name, record in
        if bundle.places.index?.holds(name) == false { return true }
        let file = bundle.places.place(name)
        return isRegularFile(file) && (try? stampOf(file))?.size == record.bytes
    }
}

/// The bundle that the bytes of a manifest describe; the hashes of its files are not checked here.
///
/// - Throws: ``OmniDraftError/bundle(_:)`` of the manifest, or of pack.json in the directory.
func describedBundle(_ path: String, _ data: [UInt8], packed: Bool = false) throws -> ModelBundle {
    let manifest = try parseManifest(path, data)
    let file = joined(path, manifestName)
    var bundle = try bundleOf(path, manifest)
    bundle.files = try checkFiles(file, manifest["files"])
    bundle.found = packed ? nil : try findPlaces(path, manifest: data, files: bundle.files)
    for name in try used(bundle, packed: packed) where !bundle.files.has(name) { throw noHash(file, name) }
    return bundle
}

/// The fields of a manifest as values; no file is looked at.
private func bundleOf(_ path: String, _ manifest: JsonObject) throws -> ModelBundle {
    do {
        _ = try text(manifest.at("omnidraft"), most: BundleLimits.maxVersion)
        let costs = try mapping(manifest.at("costs"))
        return ModelBundle(
            path: path,
            target: try readEntry(mapping(manifest.at("target"))),
            drafter: try manifest.orNull("drafter").map { try readEntry(mapping($0)) } ?? noModel,
            prompt: try promptOf(mapping(manifest.at("prompt"))),
            costs: try readCosts(costs),
            vocabMap: try text(manifest.at("vocab_map"), most: BundleLimits.maxPath),
            manifest: manifest,
            measuredOn: try costs.given("machine").map { try readMachine(mapping($0)) })
    } catch let error as ValueError {
        let message = "\(joined(path, manifestName)) has a field of the wrong kind (\(error.message))"
        throw bundleError("field", message)
    }
}

/// The files that a runtime reads, each of which needs a hash.
private func used(_ bundle: ModelBundle, packed: Bool) throws -> [String] {
    var names = [bundle.vocabMap]
    if case .object(let prompt)? = bundle.manifest["prompt"], case .string(let template)? = prompt["template"] {
        names.append(template)
    }
    for entry in bundle.models {
        names += [entry.graph, entry.tokenizer] + (entry.compiledTokenizer.map { [$0] } ?? [])
        names += entry.places.values.flatMap(\.files) + (entry.train.map { [$0.graph] } ?? [])
        // onnxruntime reads this file by its name alone; a graph that is not listed is refused anyway.
        let weights = "\(entry.graph).data"
        if !packed && bundle.files.has(entry.graph) && exists(bundle.places.place(weights)) { names.append(weights) }
    }
    return names
}

private func promptOf(_ data: JsonObject) throws -> PromptTemplate {
    let prompt = try readPrompt(data)
    _ = try data.orNull("template").map { try text($0, most: BundleLimits.maxPath) }
    for (name, value) in try mapping(data.at("names"), most: BundleLimits.maxNames).members {
        _ = try text(.string(name), most: BundleLimits.maxName)
        _ = try text(value, most: maxPrompt)
    }
    return prompt
}
