package io.omnidraft.vocab.tokenizer

import io.omnidraft.disk.ValueError
import io.omnidraft.vocab.IntList
import io.omnidraft.vocab.IntTable
import io.omnidraft.vocab.Op

/* A program that cuts words out of a text, by classes of code points (spec/02-tokenizer.md). */

/**
 * The instructions of a program; execution begins at the first.
 *
 * @property a of each instruction; targets of jumps count from the program's beginning.
 * @property number of each SPLIT among the SPLITs; 0 for other instructions.
 * @property splits number of SPLITs.
 */
internal class Program(val ops: IntArray, val a: IntArray, val b: IntArray, val number: IntArray, val splits: Int) {
    /** Instructions that run for each position of a text, at most: from the beginning, and both ways from each SPLIT. */
    val cost: Int

    init {
        // A way ends with the next SPLIT or MATCH. Only a SPLIT remembers that it was visited, so instructions that many
        // SPLITs lead to count for each of them.
        val ways = IntArray(ops.size) { 1 } // instructions on the way from each one
        for (at in ops.indices.reversed()) {
            when (ops[at]) {
                Op.MATCH, Op.SPLIT -> continue
                Op.JUMP -> ways[at] += if (a[at] > at) ways[a[at]] else 1 // back to a SPLIT
                else -> ways[at] += ways[at + 1]
            }
        }
        cost = ways[0] + ops.indices.filter { ops[it] == Op.SPLIT }.sumOf { ways[a[it]] + ways[b[it]] }
    }
}

/**
 * A program of the instructions [start] until [start] + [size], checked: execution stays inside and ends.
 *
 * @param code op, a and b of each instruction of the file, one after another.
 * @param classes number of classes of code points.
 */
internal fun makeProgram(code: IntTable, start: Int, size: Int, classes: Int): Program {
    for (at in 0 until size) checkInstruction(code, start, size, at, classes)
    if (size == 0 || code[3 * (start + size - 1)] !in listOf(Op.MATCH, Op.SPLIT, Op.JUMP)) {
        throw ValueError("the last instruction is not MATCH, SPLIT or JUMP")
    }
    fun column(field: Int): IntArray = IntArray(size) { code[3 * (start + it) + field] }
    val ops = column(0)
    var splits = 0
    val number = IntArray(size) { if (ops[it] == Op.SPLIT) splits++ else 0 }
    return Program(ops, column(1), column(2), number, splits)
}

private fun checkInstruction(code: IntTable, start: Int, size: Int, at: Int, classes: Int) {
    val op = code.unsigned(3 * (start + at))
    val a = code.unsigned(3 * (start + at) + 1)
    val b = code.unsigned(3 * (start + at) + 2)
    if (op > Op.BEFORE_IS_NOT) throw ValueError("instruction $at is $op, which is not an instruction")
    val leads = op == Op.SPLIT.toLong() || op == Op.JUMP.toLong()
    if (leads && (a >= size || (op == Op.SPLIT.toLong() && b >= size))) {
        throw ValueError("instruction $at leads outside")
    }
    if (op == Op.JUMP.toLong() && a <= at && code[3 * (start + a.toInt())] != Op.SPLIT) {
        throw ValueError("instruction $at jumps back to an instruction that is not SPLIT")
    }
    if (!leads && op != Op.MATCH.toLong() && a >= classes) {
        throw ValueError("instruction $at names class $a of $classes")
    }
}

/** Calls [found] with (start, end) of each match in a text, from left to right; none overlaps the one before it. */
internal inline fun findMatches(program: Program, masks: LongArray, found: (Int, Int) -> Unit) {
    val attempts = Attempts(program, masks)
    var start = 0
    while (start < masks.size) {
        val end = attempts.run(start)
        if (end > start) found(start, end)
        start = maxOf(end, start + 1)
    }
}

/** The attempts of a program to match at the places of one text. */
internal class Attempts(private val program: Program, private val masks: LongArray) {
    // A state that failed once fails again, also in a later attempt: the marks last for the whole text.
    private val visited = LongArray(((program.splits.toLong() * (masks.size + 1) + 63) / 64).toInt())
    private val waiting = IntList() // instruction and position to try where the current path fails

    /** The end of the match that begins at [start]; -1 if none does. */
    fun run(start: Int): Int {
        waiting.clear()
        var pc = 0
        var at = start
        while (true) {
            val next = step(pc, at)
            if (next == DONE) return at
            if (next >= 0) {
                if (program.ops[pc] == Op.CODE_CLASS) at++
                pc = next
            } else {
                if (waiting.size == 0) return -1
                at = waiting.pop()
                pc = waiting.pop()
            }
        }
    }

    /** The instruction behind [pc] on the current path; FAIL, or DONE where the attempt succeeds. */
    private fun step(pc: Int, at: Int): Int = when (val op = program.ops[pc]) {
        Op.CODE_CLASS -> if (isIn(at, program.a[pc])) pc + 1 else FAIL
        Op.SPLIT -> if (visit(pc, at)) program.a[pc] else FAIL
        Op.JUMP -> program.a[pc]
        Op.MATCH -> DONE
        Op.NEXT_IS, Op.NEXT_IS_NOT -> if (isIn(at, program.a[pc]) == (op == Op.NEXT_IS)) pc + 1 else FAIL
        else -> if (isIn(at - 1, program.a[pc]) == (op == Op.BEFORE_IS)) pc + 1 else FAIL
    }

    private fun isIn(at: Int, codeClass: Int): Boolean =
        at in masks.indices && (masks[at] ushr codeClass) and 1L != 0L

    /** Marks a SPLIT at a position, and keeps its second way for later; false if it was marked. */
    private fun visit(pc: Int, at: Int): Boolean {
        val state = at.toLong() * program.splits + program.number[pc]
        val word = (state ushr 6).toInt()
        val bit = 1L shl (state and 63).toInt()
        if (visited[word] and bit != 0L) return false
        visited[word] = visited[word] or bit
        waiting.add(program.b[pc])
        waiting.add(at)
        return true
    }
}

private const val FAIL = -1
private const val DONE = -2
