"""Checks of a pair by the measurements of its export: memory, acceptance, and the best draft length."""

from omnidraft.doctor.check import Check
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.decoding.draft_length import Costs

LONGEST = 12  # largest draft length that "auto" considers
_MEANINGFUL = 0.02  # a lower acceptance is chance, as in the check of the export


def memory_check(bundle: Bundle, free: int | None) -> Check:
    """Whether the free memory is enough for a generation."""
    need, plain = memory_need(bundle).total, memory_need(bundle, drafter=False).total
    message = f"{need / 1e6:.0f} MB at the peak, {plain / 1e6:.0f} MB without the drafter"
    details = {"needed": need, "without_drafter": plain, "free": free}
    if free is None:
        return Check("memory", "ok", f"{message}; how much is free cannot be told", details=details)
    message += f", and {free / 1e6:.0f} MB are free"
    if need <= free:
        return Check("memory", "ok", message, details=details)
    if plain <= free:
        remedy = "free memory, or go on without the drafter (--no-drafter), which generate does by itself"
        return Check("memory", "warn", message, remedy, details)
    remedy = "free memory, or export with --quant int4 or a smaller --max-length"
    return Check("memory", "fail", message, remedy, details)


def health_checks(bundle: Bundle) -> list[Check]:
    """The acceptance at export, and the draft length that pays by the costs at export."""
    try:
        measured = bundle.manifest["checks"]["acceptance"]
        drafted = int(measured["num_draft_tokens"])
        before, after = float(measured["before"]["of_drafted"]), float(measured["after"]["of_drafted"])
        emitted = float(measured["after"]["tokens_per_target_pass"])
    except (KeyError, TypeError, ValueError):
        message = "the manifest does not have it"
        return [Check("acceptance", "warn", message, "run `omnidraft export` again, or `omnidraft bench`")]
    return [_acceptance(before, after, emitted), _length(bundle.costs, after, emitted, drafted)]


def _acceptance(before: float, after: float, emitted: float) -> Check:
    message = (
        f"{after:.1%} of draft tokens at export ({before:.1%} before quantisation), "
        f"{emitted:.2f} tokens per target pass"
    )
    details = {"before": before, "after": after, "tokens_per_target_pass": emitted}
    if before >= _MEANINGFUL and after < 0.5 * before:
        remedy = "quantisation broke the drafter: export with --drafter-quant int8 or fp32"
        return Check("acceptance", "fail", message, remedy, details)
    if after < _MEANINGFUL:
        remedy = "this drafter guesses no better than chance: take another one, or train it for this target"
        return Check("acceptance", "warn", message, remedy, details)
    return Check("acceptance", "ok", message, details=details)


def _length(costs: Costs, of_drafted: float, emitted: float, drafted: int) -> Check:
    accepted = of_drafted * drafted
    # As in `draft_length`: a target token may be several draft tokens long, or a part of one.
    ratio = min(1.5, (emitted - 1.0) / accepted) if accepted > 1e-9 else 0.0
    each = costs.acceptance
    speeds = [
        (1.0 + ratio * sum(each**j for j in range(1, k + 1))) / costs.round_seconds(k)
        for k in range(LONGEST + 1)
    ]
    best = max(range(LONGEST + 1), key=speeds.__getitem__)
    gain = speeds[best] / speeds[0]
    details = {"num_draft_tokens": best, "expected_speed_up": gain, "acceptance_per_token": each}
    if best:
        message = (
            f"{best} draft tokens pay by the costs measured at export: {gain:.2f}x of plain decoding expected"
        )
        return Check("draft length", "ok", message, details=details)
    pass_cost = costs.round_seconds(1) / costs.round_seconds(0)
    message = (
        "by the costs measured at export no draft length pays: a round with one draft token costs "
        f"{pass_cost:.2f} plain passes"
    )
    remedy = (
        "run `omnidraft bench BUNDLE`, which measures this machine; --quant fp32 or int8 makes a block of "
        "tokens cheaper, a smaller or better drafter helps too"
    )
    return Check("draft length", "warn", message, remedy, details)
