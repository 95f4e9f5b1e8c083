// Four threads change one number without a lock: the thread sanitizer must report it.

import Glibc

final class Shared: @unchecked Sendable { var count = 0 }
let shared = Shared()

func work(_: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    for _ in 0..<100_000 { shared.count &+= 1 }
    return nil
}

var threads = [pthread_t](repeating: 0, count: 4)
for number in threads.indices { pthread_create(&threads[number], nil, work, nil) }
for thread in threads { pthread_join(thread, nil) }
print(shared.count)
