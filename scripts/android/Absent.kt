// Java that a phone of level 26 lacks: compile.sh fails unless the compiler refuses each function here.

fun readString(): String = java.nio.file.Files.readString(java.nio.file.Paths.get("x"))

fun process(): Any = ProcessHandle.current()

fun bytes(stream: java.io.InputStream): ByteArray = stream.readAllBytes()

fun path(): Any = java.nio.file.Path.of("x")
