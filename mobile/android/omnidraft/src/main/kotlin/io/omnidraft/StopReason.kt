package io.omnidraft

/**
 * Why an output ended (spec/05-stopping.md).
 *
 * @property word the name in session files.
 */
public enum class StopReason(internal val word: String) {
    /** At an end token. */
    EOS("eos"),

    /** At a stop string. */
    STOP("stop"),

    /** Its text is whole in its grammar, and nothing may follow. No session file has it. */
    COMPLETE("complete"),

    /** At the number of tokens that was asked for. */
    LENGTH("length"),

    /** The context is full. */
    CONTEXT("context"),

    /** The caller cancelled it. */
    CANCELLED("cancelled"),
}
