import java.io.File
import kotlin.reflect.KCallable
import kotlin.reflect.KClass
import kotlin.reflect.KFunction
import kotlin.reflect.KMutableProperty
import kotlin.reflect.KParameter
import kotlin.reflect.KProperty
import kotlin.reflect.KVisibility
import kotlin.reflect.full.declaredMembers
import kotlin.reflect.full.superclasses
import kotlin.reflect.jvm.kotlinFunction
import kotlin.reflect.jvm.kotlinProperty

/*
 * Lists the public classes of a folder of class files, with their public and protected members, one in a line, in
 * alphabetical order. `internal` is public in bytecode, so the listing reads Kotlin's own metadata.
 */
fun main(arguments: Array<String>) {
    val root = File(arguments.single())
    val names = root.walk().filter { it.extension == "class" }.map {
        it.relativeTo(root).path.removeSuffix(".class").replace('/', '.')
    }
    val classes = names.sorted().map { Class.forName(it, false, ClassLoader.getSystemClassLoader()) }.toList()
    classes.filter { it.isAnnotationPresent(Metadata::class.java) }.forEach { describe(it) }
}

private fun describe(type: Class<*>) {
    when (type.getAnnotation(Metadata::class.java).kind) {
        CLASS -> if (type.kotlin.isShown()) describe(type.kotlin)
        FILE, PART -> describeFile(type)
    }
}

private const val CLASS = 1
private const val FILE = 2
private const val PART = 5

private fun describeFile(type: Class<*>) {
    val functions = type.declaredMethods.mapNotNull { it.kotlinFunction }
    val properties = type.declaredFields.mapNotNull { it.kotlinProperty }
    val members = (functions + properties).filter { it.visibility == KVisibility.PUBLIC }
    if (members.isEmpty()) return
    println("file ${type.name} {")
    members.map { line(it) }.sorted().forEach { println("    $it") }
    println("}\n")
}

private fun describe(type: KClass<*>) {
    val parents = type.superclasses.filter { it != Any::class }.joinToString { it.qualifiedName ?: "?" }
    println("${kind(type)} ${short(type.qualifiedName.orEmpty())}${if (parents.isEmpty()) "" else " : $parents"} {")
    val entries = type.java.enumConstants?.map { "entry ${(it as Enum<*>).name}" }.orEmpty()
    val built = if (type.java.isEnum) listOf() else type.constructors.filter { it.isShown() }
    val constructors = built.map { "constructor${parameters(it)}" }
    val members = type.declaredMembers.filter { it.isShown() && !isMade(type, it) }.map { line(it) }
    (entries + constructors.sorted() + members.sorted()).forEach { println("    $it") }
    println("}\n")
}

/** Whether every enum or data class has this member. */
private fun isMade(type: KClass<*>, member: KCallable<*>): Boolean = when {
    type.java.isEnum -> member.name in setOf("values", "valueOf", "entries")
    type.isData -> member.name in setOf("copy", "equals", "hashCode", "toString") || member.name.startsWith("component")
    else -> false
}

private fun KClass<*>.isShown(): Boolean {
    val outer = java.declaringClass
    val isOpen = visibility == KVisibility.PUBLIC || visibility == KVisibility.PROTECTED
    return isOpen && (outer == null || outer.kotlin.isShown())
}

private fun KCallable<*>.isShown(): Boolean = visibility == KVisibility.PUBLIC || visibility == KVisibility.PROTECTED

private fun kind(type: KClass<*>): String {
    val word = when {
        type.java.isEnum -> "enum class"
        type.objectInstance != null -> "object"
        type.java.isInterface && type.isFun -> "fun interface"
        type.java.isInterface -> "interface"
        type.isData -> "data class"
        else -> "class"
    }
    val isPlain = type.java.isInterface || type.java.isEnum || type.objectInstance != null
    return when {
        type.isSealed -> "sealed $word"
        isPlain -> word
        type.isAbstract -> "abstract $word"
        type.isOpen -> "open $word"
        else -> word
    }
}

private fun line(member: KCallable<*>): String = when (member) {
    is KMutableProperty<*> -> "${if (member.setter.isShown()) "var" else "val"} ${member.name}"
    is KProperty<*> -> "val ${member.name}"
    else -> "fun ${member.name}${parameters(member as KFunction<*>)}"
} + ": " + short(member.returnType.toString())

private fun parameters(function: KFunction<*>): String =
    function.parameters.filter { it.kind != KParameter.Kind.INSTANCE }.joinToString(prefix = "(", postfix = ")") {
        "${it.name}: ${short(it.type.toString())}${if (it.isOptional) " = ..." else ""}"
    }

private fun short(type: String): String =
    type.replace("kotlin.collections.", "").replace("kotlin.", "").replace("io.omnidraft.", "")
