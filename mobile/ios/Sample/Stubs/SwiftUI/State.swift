// Values that views own and share.

@propertyWrapper
public struct State<Value> {
    public init(wrappedValue value: Value) { notHere() }
    public init(initialValue value: Value) { notHere() }
    public var wrappedValue: Value {
        get { notHere() }
        nonmutating set { notHere() }
    }
    public var projectedValue: Binding<Value> { notHere() }
}

extension State: Sendable where Value: Sendable {}

@propertyWrapper @dynamicMemberLookup
public struct Binding<Value> {
    public init(projectedValue: Binding<Value>) { notHere() }
    public var wrappedValue: Value {
        get { notHere() }
        nonmutating set { notHere() }
    }
    public var projectedValue: Binding<Value> { self }
    public subscript<Subject>(dynamicMember keyPath: WritableKeyPath<Value, Subject>) -> Binding<Subject> { notHere() }
}

@propertyWrapper @dynamicMemberLookup
public struct Bindable<Value> {
    public var wrappedValue: Value
    public var projectedValue: Bindable<Value> { self }
    @available(*, unavailable, message: "The wrapped value must be an object that conforms to Observable")
    public init(wrappedValue: Value) { notHere() }
}

extension Bindable where Value: AnyObject & Observable {
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
    public init(_ wrappedValue: Value) { self.wrappedValue = wrappedValue }
    public subscript<Subject>(dynamicMember keyPath: ReferenceWritableKeyPath<Value, Subject>) -> Binding<Subject> {
        notHere()
    }
}
