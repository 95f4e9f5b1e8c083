package io.omnidraft

/**
 * What did not fail and an app should know (spec/08-phones.md, Notices).
 *
 * @property kind what happened.
 * @property message the same in one sentence with the values, then what to do about it.
 */
public class Notice(public val kind: NoticeKind, public val message: String)

/** What a [Notice] is about. */
public enum class NoticeKind {
    /** The memory is too small for both models: the bundle runs without its drafter. */
    NO_DRAFTER,

    /** The models run on the CPU instead of the provider that was asked for. */
    ON_CPU,

    /** The file of n-grams was refused: the cache begins empty. */
    EMPTY_CACHE,

    /** The session that was loaded was saved with another adapter of the drafter. */
    OTHER_ADAPTER,
}
