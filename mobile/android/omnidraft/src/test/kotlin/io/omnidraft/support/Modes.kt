package io.omnidraft.support

import io.omnidraft.GenerationConfig.Mode
import io.omnidraft.GenerationConfig.Verification

/** The mode of a name. */
internal fun mode(name: String): Mode = Mode.values().first { it.word == name }

/** The verification of a name. */
internal fun verification(name: String): Verification = Verification.values().first { it.word == name }
