// A model in the engine. The same tensors are bound as past and as present, so the engine writes new keys and values in
// place, and a rewind only lowers a counter (spec/03-bundle.md).

private let longPassTokens = 128  // positions of a long prompt in one pass
private let mostRows = 65  // rows of logits of the longest usual pass, a verification of 64 proposed tokens
private let usualRows = 13  // of a verification of the longest draft that the length auto asks for

/// The loaded weights of a model: any number of ``OrtModel``s may run them, each from its own thread. It does not
/// change after the checks.
final class Graph: @unchecked Sendable {
    /// The graph; weights in a file beside it are mapped into memory, not read.
    let path: String
    /// Shape of its KV buffers.
    let kv: KvShape
    /// Width of its logits.
    let vocabSize: Int
    let session: any EngineGraph
    /// The adapters that it takes, once they were checked.
    private(set) var lora: LoraSites?

    /// - Throws: ``OmniDraftError/bundle(_:)``: the engine cannot load the graph, or it has other inputs and outputs.
    init(
        _ engine: any InferenceEngine, path: String, kv: KvShape, vocabSize: Int, threads: Int = 1,
        provider: EngineProvider? = nil
    ) throws {
        self.path = path
        self.kv = kv
        self.vocabSize = vocabSize
        session = try cpuSession(engine, path, threads: threads, provider: provider)
        try checkValues(path, session, SharedValues(kv, vocabSize: vocabSize))
    }

    /// Checks that the graph takes the adapters of a manifest, and nothing else.
    ///
    /// - Throws: ``OmniDraftError/bundle(_:)`` `graph`.
    func check(_ lora: LoraSites?) throws {
        let fed = SharedValues(kv, vocabSize: vocabSize).inputs
        try checkAdapters(path, session, known: fed, adapterValues(lora))
        self.lora = lora
    }
}

/// Inputs and outputs of passes over n tokens: what they read and write.
private final class Block {
    let binding: any EngineBinding
    let inputIds: UnsafeMutablePointer<Int64>
    let logits: Logits
    private let ids: EngineMemory  // owned

    init(_ binding: any EngineBinding, ids: EngineMemory, logits: Logits) {
        self.binding = binding
        inputIds = pointer(ids)
        self.logits = logits
        self.ids = ids
    }
}

private struct BlockKey: Hashable {
    let tokens: Int
    let rows: Int
}

/// A decoder graph with shared-buffer KV of its own. One thread uses it at a time; `interrupt` may be called from any.
class OrtModel: SessionModel {
    let graph: Graph
    /// The KV buffers, in the order of ``kvNames(_:)``; for tests.
    let buffers: [EngineMemory]
    private(set) var length = 0
    var cancelled: () -> Bool = { false }
    private let engine: EngineRun
    private let seqlens: EngineMemory
    private let total: EngineMemory
    private let numLogits: EngineMemory
    private var rows: EngineMemory  // of logits: memory grows with the passes that ask for it
    private var blocks: [BlockKey: Block] = [:]
    private var fed: [EngineTensor] = []  // an adapter's tensors that are inputs of the graph

    init(_ graph: Graph) throws {
        self.graph = graph
        engine = try EngineRun(graph.session, name: graph.path)
        buffers = try kvBuffers(graph.kv)
        seqlens = try memory(4)
        total = try memory(4)
        numLogits = try memory(8)
        rows = try memory(4 * graph.vocabSize)
        if let lora = graph.lora, lora.rank != nil {  // it must be fed from the beginning
            try useAdapter(noAdapter(lora).members.map { (name: $0.name, tensor: tensorOf($0.value)) })
        }
    }

    var vocabSize: Int { graph.vocabSize }
    var maxLength: Int { graph.kv.maxLength }

    func score(_ tokens: [Int32], numLogits: Int?) throws -> Logits {
        let count = numLogits ?? tokens.count
        precondition(count >= 1 && count <= tokens.count && tokens.count <= maxLength - length)
        // Positions whose logits are not needed go first, in chunks of one row of logits each.
        var start = 0
        while tokens.count - count - start > longPassTokens {
            _ = try run(tokens[start..<start + longPassTokens], 1)
            start += longPassTokens
        }
        return try run(tokens[start...], count)
    }

    func interrupt() { engine.interrupt() }

    func rewind(_ length: Int) {
        precondition(length >= 0 && length <= self.length)
        self.length = length
    }

    func useAdapter(_ tensors: [(name: String, tensor: Tensor)]) throws {
        let names = Set((graph.session.inputs + graph.session.defaults).map { Array($0.name.utf8) })
        let taken = tensors.filter { names.contains(Array($0.name.utf8)) }
        let copies = try taken.map {
            EngineTensor($0.name, type: .float32, shape: $0.tensor.shape, memory: try copied($0.tensor.data))
        }
        blocks = [:]  // their inputs name the tensors of the adapter before
        fed = copies
    }

    private func run(_ tokens: ArraySlice<Int32>, _ count: Int) throws -> Logits {
        let block = try block(tokens.count, count)
        for (index, token) in tokens.enumerated() { block.inputIds[index] = Int64(token) }
        let total = length + tokens.count
        pointer(seqlens, of: Int32.self)[0] = Int32(total - 1)
        pointer(self.total, of: Int32.self)[0] = Int32(total)
        pointer(numLogits, of: Int64.self)[0] = Int64(count)
        try engine.run(block.binding, cancelled: cancelled)
        length = total
        return block.logits
    }

    /// The binding for n tokens, made once (single steps and verifications reuse theirs).
    private func block(_ n: Int, _ count: Int) throws -> Block {
        try growRows(count)
        if n > mostRows { return try newBlock(n, count) }  // prompts have many lengths: their bindings are not kept
        let key = BlockKey(tokens: n, rows: count)
        if let block = blocks[key] { return block }
        let block = try newBlock(n, count)
        blocks[key] = block
        return block
    }

    private func newBlock(_ n: Int, _ count: Int) throws -> Block {
        let ids = try memory(8 * n)
        let width = graph.vocabSize
        let (sizes, kind) = (graph.kv.sizes, graph.kv.type.element)
        var inputs = [
            EngineTensor("input_ids", type: .int64, shape: [1, n], memory: ids),
            EngineTensor("seqlens_k", type: .int32, shape: [1], memory: seqlens),
            EngineTensor("total_sequence_length", type: .int32, shape: [1], memory: total),
            EngineTensor("num_logits", type: .int64, shape: [1], memory: numLogits),
        ]
        var outputs = [EngineTensor("logits", type: .float32, shape: [1, count, width], memory: rows)]
        for (name, memory) in zip(kvNames(graph.kv.numLayers), buffers) {
            inputs.append(EngineTensor(pastName(name), type: kind, shape: sizes, memory: memory))
            outputs.append(EngineTensor(presentName(name), type: kind, shape: sizes, memory: memory))
        }
        do {
            let binding = try graph.session.bind(inputs: inputs + fed, outputs: outputs)
            let logits = Logits(owner: rows, values: UnsafePointer(pointer(rows)), rows: count, width: width)
            return Block(binding, ids: ids, logits: logits)
        } catch {
            let message = "the engine cannot run \(graph.path) (\(reason(error)))"
            throw bundleError("run", message, "")
        }
    }

    /// Makes room for the logits of a pass; all passes share one buffer.
    private func growRows(_ count: Int) throws {
        let width = 4 * graph.vocabSize
        if count * width <= rows.bytes.count { return }
        blocks = [:]
        rows = try memory((count <= usualRows ? usualRows : max(count, mostRows)) * width)
    }
}

private func memory(_ bytes: Int) throws -> EngineMemory {
    if let memory = EngineMemory(bytes) { return memory }
    let message = "a pass takes \(grouped(bytes)) bytes, which this device does not give"
    throw bundleError("memory", message, "")
}

private func copied(_ values: Bytes) throws -> EngineMemory {
    let copy = try memory(values.count)
    values.withUnsafeBytes { copy.bytes.copyMemory(from: $0) }
    return copy
}

private func pointer<T>(_ memory: EngineMemory, of type: T.Type = T.self) -> UnsafeMutablePointer<T> {
    // Memory of the engine is never empty and is aligned to 64 bytes.
    let capacity = memory.bytes.count / MemoryLayout<T>.stride
    return memory.bytes.baseAddress.unsafelyUnwrapped.bindMemory(to: type, capacity: capacity)
}
