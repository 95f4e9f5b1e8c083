import Foundation

/// A call of a tool; see ``TextSession/toolResults(_:_:grammar:)``.
public struct ToolCall: Sendable, Equatable {
    /// Of the tool.
    public let name: String
    /// The arguments by name, as a JSON object that is valid by the tool's schema.
    public let arguments: String
    /// By which the result names the call, where the model writes one; else empty.
    public let id: String

    /// A call, such as one that a test of an app makes.
    public init(name: String, arguments: String, id: String = "") {
        self.name = name
        self.arguments = arguments
        self.id = id
    }

    /// The arguments as a value.
    ///
    /// - Parameter type: whose properties are the arguments.
    /// - Throws: `DecodingError`: the type does not fit the tool's schema.
    public func decoded<Arguments: Decodable>(as type: Arguments.Type) throws -> Arguments {
        try JSONDecoder().decode(type, from: Data(arguments.utf8))
    }
}
