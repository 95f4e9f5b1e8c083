@_exported import Foundation
@_exported import Observation

// Views and what composes them.

@MainActor @preconcurrency
public protocol View {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency var body: Body { get }
}

/// A view that the system draws.
public protocol SystemView: View where Body == Never {}

extension SystemView {
    public var body: Never { notHere() }
}

extension Never: View {
    public var body: Never { notHere() }
}

extension Optional: View where Wrapped: View {
    public var body: Never { notHere() }
}

public struct EmptyView: SystemView {
    public nonisolated init() {}
}

public struct TupleView<T>: SystemView {}

public struct _ConditionalContent<TrueContent: View, FalseContent: View>: SystemView {}

@resultBuilder
public struct ViewBuilder {
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock() -> EmptyView { EmptyView() }
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock<each Content: View>(
        _ content: repeat each Content
    ) -> TupleView<(repeat each Content)> { notHere() }
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    public static func buildEither<TrueContent: View, FalseContent: View>(
        first: TrueContent
    ) -> _ConditionalContent<TrueContent, FalseContent> { notHere() }
    public static func buildEither<TrueContent: View, FalseContent: View>(
        second: FalseContent
    ) -> _ConditionalContent<TrueContent, FalseContent> { notHere() }
}

public struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content> {}

extension ForEach: View where Content: View {
    public var body: Never { notHere() }

    public init(_ data: Data, id: KeyPath<Data.Element, ID>, @ViewBuilder content: @escaping (Data.Element) -> Content)
    {
        notHere()
    }
}

extension ForEach where Data.Element: Identifiable, ID == Data.Element.ID, Content: View {
    public init(_ data: Data, @ViewBuilder content: @escaping (Data.Element) -> Content) { notHere() }
}

func notHere() -> Never { fatalError("a signature alone") }
