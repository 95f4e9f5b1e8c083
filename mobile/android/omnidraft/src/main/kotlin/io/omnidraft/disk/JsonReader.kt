package io.omnidraft.disk

/** Reads one JSON text from its beginning to its end; see [parse]. The depth is bounded, so is the recursion. */
internal class JsonReader(private val text: String) {
    private var at = 0
    private var depth = 0
    private var containers = 0

    /** The value, if nothing but white space is around it. */
    fun whole(): Any? {
        val value = value()
        if (at != text.length) throw bad("text after the value")
        return value
    }

    private fun value(): Any? {
        skipSpace()
        val value = when (peek()) {
            '{' -> inside { members() }
            '[' -> inside { items() }
            '"' -> string()
            't' -> word("true", true)
            'f' -> word("false", false)
            'n' -> word("null", null)
            else -> number()
        }
        skipSpace()
        return value
    }

    private fun <T> inside(read: () -> T): T {
        if (++depth > MAX_DEPTH) throw ValueError("its arrays and objects are nested more than $MAX_DEPTH deep")
        if (++containers > MAX_CONTAINERS) throw ValueError("it has more than $MAX_CONTAINERS arrays and objects")
        at++
        skipSpace()
        val value = read()
        depth--
        return value
    }

    private fun members(): Map<String, Any?> {
        val names = LinkedHashMap<String, Any?>()
        if (taken('}')) return names
        do {
            skipSpace()
            val name = string()
            skipSpace()
            if (!taken(':')) throw bad("no colon after a name")
            val value = value()
            if (names.containsKey(name)) throw ValueError("an object has a name twice")
            names[name] = value
        } while (taken(','))
        if (!taken('}')) throw bad("an object without its end")
        return names
    }

    private fun items(): List<Any?> {
        val items = ArrayList<Any?>()
        if (taken(']')) return items
        do items.add(value()) while (taken(','))
        if (!taken(']')) throw bad("an array without its end")
        return items
    }

    private fun word(word: String, value: Any?): Any? {
        if (!text.startsWith(word, at)) throw bad("neither a value nor a bracket")
        at += word.length
        return value
    }

    private fun string(): String {
        if (!taken('"')) throw bad("no string")
        val start = at
        while (at < text.length && text[at] != '"' && text[at] != '\\' && text[at] >= ' ') at++
        if (taken('"')) return text.substring(start, at - 1) // decoded from UTF-8, so without half a pair
        val out = StringBuilder(text.substring(start, at))
        while (!taken('"')) {
            val char = peek()
            if (char < ' ') throw bad("a control character in a string, or a string without its end")
            at++
            out.append(if (char == '\\') escaped() else char)
        }
        return out.toString().also { if (hasHalfPair(it)) throw ValueError("a string has half a surrogate pair") }
    }

    private fun escaped(): Char {
        val char = peek()
        at++
        return when (char) {
            '"', '\\', '/' -> char
            'b' -> '\b'
            'f' -> '\u000C'
            'n' -> '\n'
            'r' -> '\r'
            't' -> '\t'
            'u' -> unit()
            else -> throw bad("an unknown escape")
        }
    }

    private fun unit(): Char {
        var code = 0
        repeat(4) {
            val digit = hexDigit(peek())
            if (digit < 0) throw bad("an escape without four hexadecimal digits")
            code = code * 16 + digit
            at++
        }
        return code.toChar()
    }

    private fun number(): Any {
        val start = at
        taken('-')
        if (!taken('0') && digits() == 0) throw bad("neither a value nor a bracket")
        val whole = at
        if (peek() == '.') {
            at++
            if (digits() == 0) throw bad("a number without a digit behind its point")
        }
        if (peek() == 'e' || peek() == 'E') {
            at++
            if (!taken('+')) taken('-')
            if (digits() == 0) throw bad("a number without an exponent")
        }
        return number(bounded(text.substring(start, at)), at == whole)
    }

    private fun number(digits: String, isInteger: Boolean): Any {
        if (isInteger) return digits.toLongOrNull() ?: digits.toBigInteger()
        val number = digits.toDouble()
        if (number.isInfinite()) throw ValueError("the number $digits is too large")
        return number
    }

    private fun bounded(digits: String): String {
        if (digits.length <= MAX_NUMBER) return digits
        throw ValueError("a number has ${digits.length} characters, more than $MAX_NUMBER")
    }

    private fun digits(): Int {
        val start = at
        while (peek() in '0'..'9') at++
        return at - start
    }

    private fun skipSpace() {
        while (at < text.length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) at++
    }

    /** The next character; zero, which no rule of JSON takes, at the end. */
    private fun peek(): Char = if (at < text.length) text[at] else '\u0000'

    private fun taken(char: Char): Boolean {
        if (at >= text.length || text[at] != char) return false
        at++
        return true
    }

    private fun bad(what: String) = ValueError("it is not JSON: $what at character $at")
}

/** The value of a hexadecimal digit; -1 if it is none. */
internal fun hexDigit(char: Char): Int = when (char) {
    in '0'..'9' -> char - '0'
    in 'a'..'f' -> char - 'a' + 10
    in 'A'..'F' -> char - 'A' + 10
    else -> -1
}
