// How far an adaptation is, as the values of its checkpoint (spec/13-learner.md, The end of an interval).

private let mostAnswers = 1 << 16
private let mostCount = 1 << 53
private let mostRollbacks = 1 << 20

/// Where an answer is: a record of a trace.
struct AnswerPlace: Sendable, Equatable {
    /// Of the answer, from 1.
    let number: Int
    let segment: Int
    let record: Int

    fileprivate var json: JsonValue { .array([.int(number), .int(segment), .int(record)]) }
}

/// A round of learning that is not finished.
struct UnfinishedLearning: Sendable, Equatable {
    /// Numbers of the answers of the interval.
    let new: [Int]
    /// Numbers of earlier answers, some of which each step repeats.
    let earlier: [Int]
    /// Steps that were made; the next one is that with this number.
    var done = 0
    /// Whether one of them changed the drafter.
    var applied = false
}

struct AdaptationProgress: Sendable, Equatable {
    var answered = 0
    /// Of the adapter in use, counted by learning; 0 for the one that learning began with.
    var version = 0
    /// The last version that the guard found good.
    var good = 0
    /// Versions learned so far, with those that were rolled back.
    var learned = 0
    /// In a row, since the last version that was found good.
    var rollbacks = 0
    /// Intervals left without learning after a rollback.
    var cooldown = 0
    /// Factor of the learning rate, 0 to 1.
    var rateScale = 1.0
    /// Numbers of the answers to learn from again.
    var memory: [Int] = []
    /// Numbers of the answers that were not learned from so far.
    var pending: [Int] = []
    /// The answers that the guard compares.
    var guardState = GuardState()
    /// Where the answers of ``memory``, ``pending`` and ``unfinished`` are.
    var places: [AnswerPlace] = []
    /// The last record of the trace that was taken; nil before the first.
    var read: AnswerPlace?
    /// A round of learning that goes on in the next step; nil for none.
    var unfinished: UnfinishedLearning?

    init() {}

    /// Reads back what ``json`` gave.
    ///
    /// - Throws: ``ValueError``: the value is not the progress of an adaptation.
    init(json: JsonValue) throws {
        let fields = try mapping(json)
        let names = AdaptationProgress().json.names
        let hasAll = names.allSatisfy { fields[$0] != nil }
        if fields.count != names.count || !hasAll {
            throw ValueError("it has other fields than the progress of an adaptation")
        }
        answered = try count(fields.at("answered"))
        version = try count(fields.at("version"))
        good = try count(fields.at("good"))
        learned = try count(fields.at("learned"))
        rollbacks = try integer(fields.at("falls"), in: 0...mostRollbacks)
        cooldown = try integer(fields.at("rest"), in: 0...Defaults.learnerMaxRest)
        rateScale = try number(fields.at("slow"), in: 0...1)
        memory = try numbers(fields.at("memory"))
        pending = try numbers(fields.at("pending"))
        guardState = try GuardState(json: fields.at("guard"))
        places = try array(fields.at("places"), most: mostAnswers).map(place)
        if let value = fields["read"], value != .null { read = try place(value) }
        if let value = fields["unfinished"], value != .null { unfinished = try unfinishedOf(mapping(value)) }
        if max(version, good) > learned { throw ValueError("its versions are not counted") }
    }

    /// The fields under their names in the file.
    var json: JsonObject {
        func list(_ numbers: [Int]) -> JsonValue { .array(numbers.map(JsonValue.int)) }
        let rest: JsonValue? = unfinished.map {
            ["new": list($0.new), "earlier": list($0.earlier), "done": .int($0.done), "applied": .bool($0.applied)]
        }
        return [
            "answered": .int(answered), "version": .int(version), "good": .int(good), "learned": .int(learned),
            "falls": .int(rollbacks), "rest": .int(cooldown), "slow": .double(rateScale), "memory": list(memory),
            "pending": list(pending), "guard": guardState.json, "places": .array(places.map(\.json)),
            "read": read?.json ?? .null, "unfinished": rest ?? .null,
        ]
    }

    /// Forget the places of answers that nothing names any more.
    mutating func dropPlaces() {
        let named = Set(memory + pending + (unfinished.map { $0.new + $0.earlier } ?? []))
        places = places.filter { named.contains($0.number) }
    }
}

private func count(_ value: JsonValue) throws -> Int { try integer(value, in: 0...mostCount) }

private func numbers(_ value: JsonValue) throws -> [Int] {
    try array(value, most: mostAnswers).map { try integer($0, in: 1...mostCount) }
}

private func place(_ value: JsonValue) throws -> AnswerPlace {
    let numbers = try array(value, most: 3, least: 3).map(count)
    return AnswerPlace(number: numbers[0], segment: numbers[1], record: numbers[2])
}

private func unfinishedOf(_ fields: JsonObject) throws -> UnfinishedLearning {
    UnfinishedLearning(
        new: try numbers(fields.at("new")), earlier: try numbers(fields.at("earlier")),
        done: try integer(fields.at("done"), from: 0), applied: try boolean(fields.at("applied")))
}

/// What an adaptation belongs to, by the names that messages use: models, tokenizers, and the settings that a later run
/// needs too.
struct AdaptationOf: Sendable, Equatable {
    let facts: [(name: String, value: String)]

    static func == (a: AdaptationOf, b: AdaptationOf) -> Bool { a.json == b.json }

    var json: JsonObject { JsonObject(facts.map { ($0.name, .string($0.value)) }) }

    /// The first fact in which a checkpoint differs, as a clause of a sentence; nil for none.
    ///
    /// - Throws: ``ValueError``: the checkpoint has no readable facts.
    func differing(_ recorded: JsonValue) throws -> String? {
        let fields = try mapping(recorded)
        for (name, ours) in facts {
            let theirs = try fields[name].flatMap { $0 == .null ? nil : try text($0, most: 256) }
            if theirs.map({ isSame($0, ours) }) != true {
                return "the \(name) \(theirs.map { String($0.prefix(12)) } ?? "null") and not \(ours.prefix(12))"
            }
        }
        return nil
    }
}
