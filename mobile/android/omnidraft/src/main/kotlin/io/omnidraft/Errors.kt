package io.omnidraft

/*
 * Every refusal that an app can meet, as one family of exceptions (spec/08-phones.md, Errors).
 * A bug is not a member of this family.
 */

/**
 * Base class of all refusals.
 *
 * @property fault the name of what is wrong with a file, the same in every language; empty where a chapter names none.
 * @property remedy what to do about it; empty where the message says it.
 */
public open class OmniDraftException(
    public val fault: String,
    message: String,
    public val remedy: String = "",
    cause: Throwable? = null,
) : Exception(shown(message), cause) {
    /** The message, then the remedy: one line for a log or a dialog. */
    override fun toString(): String = if (remedy.isEmpty()) message.orEmpty() else "$message; ${shown(remedy)}"
}

/** A bundle whose manifest, files or hashes are not what they must be (spec/03-bundle.md). */
public open class BundleException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** A bundle that is not signed with the key that was given (spec/10-signing.md). */
public class SignatureException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    BundleException(fault, message, remedy, cause)

/** An archive of a bundle that is refused, or cannot be unpacked (spec/16-archive.md). */
public class ArchiveException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    BundleException(fault, message, remedy, cause)

/** A tokenizer that is absent or of a kind whose bytes cannot be read (spec/02-tokenizer.md). */
public class TokenizerException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** A vocabulary map that does not fit the two models that it is used with (spec/03-bundle.md). */
public class VocabMapException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** An n-gram cache file that is refused (spec/06-ngram-cache.md). */
public class CacheFileException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** A session file that is refused, or cannot be written (spec/09-session.md). */
public class SessionFileException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** A LoRA adapter that is refused, or cannot be written (spec/11-adapter.md). */
public class AdapterException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** A grammar file that is refused, or a grammar that no output can belong to (spec/17-grammar.md). */
public class GrammarException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** A trace that is refused, or a place where none can be recorded (spec/12-trace.md). */
public class TraceFileException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** A store that cannot be used, or a release that is refused (spec/15-sync.md). */
public class SyncException(fault: String, message: String, remedy: String = "", cause: Throwable? = null) :
    OmniDraftException(fault, message, remedy, cause)

/** A prompt that is empty, not a text, or longer than the context. */
public class PromptException(message: String, remedy: String = "", fault: String = "") :
    OmniDraftException(fault, message, remedy)

/** A session that cannot do what was asked now: it generates already, or there is nothing to resume. */
public class SessionException(message: String, remedy: String = "", fault: String = "") :
    OmniDraftException(fault, message, remedy)

/**
 * A setting outside its range.
 *
 * @property setting its name; empty where the message is about several settings, or about none that an app sets.
 */
public class SettingException(message: String, remedy: String = "", public val setting: String = "") :
    OmniDraftException("", message, remedy)

/** The first line of what an exception says, at most 200 characters, without a full stop at its end. */
internal fun reason(error: Throwable): String {
    val line = error.message.orEmpty().lineSequence().map { it.trim() }.firstOrNull { it.isNotEmpty() }
    return line?.take(200)?.trimEnd('.', ' ') ?: error.javaClass.simpleName
}

/**
 * Text of any origin for a log: what is not printable is written as its escape, so a name in a file cannot move a
 * cursor or begin a new line.
 */
internal fun shown(text: String): String {
    if (text.none { hidden(it) }) return text
    return text.map { if (hidden(it)) escaped(it) else it.toString() }.joinToString("")
}

private fun hidden(char: Char): Boolean = char.isISOControl() || char.category == CharCategory.FORMAT

private fun escaped(char: Char): String = "\\u" + char.code.toString(16).padStart(4, '0')

/** A number before its noun, as `1 step`, `2 steps` or `1,024 steps`; [what] is the singular. */
internal fun counted(number: Long, what: String): String = "${grouped(number)} $what${if (number == 1L) "" else "s"}"

/** A number with commas between its thousands. */
internal fun grouped(number: Long): String {
    val digits = number.toString().removePrefix("-")
    val groups = digits.reversed().chunked(3).joinToString(",").reversed()
    return if (number < 0) "-$groups" else groups
}
