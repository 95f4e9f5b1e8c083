// Memory is read after it was freed: the address sanitizer must report it.

let numbers = UnsafeMutablePointer<Int>.allocate(capacity: 4)
numbers.initialize(repeating: 1, count: 4)
numbers.deallocate()
print(numbers[2])
