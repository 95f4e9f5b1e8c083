"""Checks of a pair by the measurements of its export: memory, acceptance, and whether drafting pays."""

from omnidraft.doctor.check import DRAFTING, Check
from omnidraft.pair_verdict import CHANCE, CountedDrafts, chance_verdict, expected_verdict
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.device.device_costs import DeviceCosts
from omnidraft.text_quality import MOST_LOSS, read_quality


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


def health_checks(bundle: Bundle, device: DeviceCosts) -> list[Check]:
    """The acceptance at export, and whether drafting pays by the costs that are known of this machine."""
    try:
        measured = bundle.manifest["checks"]["acceptance"]
        after = measured["after"]
        counted = CountedDrafts(
            float(after["of_drafted"]),
            float(after["tokens_per_target_pass"]),
            int(measured["num_draft_tokens"]),
        )
        before = float(measured["before"]["of_drafted"])
    except (KeyError, TypeError, ValueError):
        message = "the manifest does not have it"
        return [Check("acceptance", "warn", message, "run `omnidraft export` again, or `omnidraft bench`")]
    return [_acceptance(before, counted), _drafting(bundle, device, counted)]


def quality_check(bundle: Bundle) -> Check:
    """What the target's form costs in quality of text, as measured at export."""
    quality = read_quality(bundle.manifest)
    if quality is None:
        message = f"not recorded; `omnidraft eval {bundle.path} --source CHECKPOINT` measures it"
        return Check("text quality", "ok", message)
    if not quality.bad:
        return Check("text quality", "ok", quality.whole.sentence, details=quality.as_json())
    remedy = (
        f"{bundle.target.quantization} loses more than {100 * MOST_LOSS:.0f} % of perplexity: export with "
        "--quant auto or int8"
    )
    return Check("text quality", "warn", quality.whole.sentence, remedy, quality.as_json())


def _acceptance(before: float, counted: CountedDrafts) -> Check:
    after, emitted = counted.of_drafted, counted.tokens_per_target_pass
    message = (
        f"{after:.1%} of draft tokens at export ({before:.1%} before quantisation), "
        f"{emitted:.2f} tokens per target pass at k = {counted.num_draft_tokens}"
    )
    details = {"before": before, "after": after, "tokens_per_target_pass": emitted}
    details["num_draft_tokens"] = counted.num_draft_tokens
    if before >= CHANCE and after < 0.5 * before:
        remedy = "quantisation broke the drafter: export with --drafter-quant int8 or fp32"
        return Check("acceptance", "fail", message, remedy, details)
    if after < CHANCE:
        remedy = f"this drafter guesses no better than chance: {chance_verdict(after).remedy}"
        return Check("acceptance", "warn", message, remedy, details)
    return Check("acceptance", "ok", message, details=details)


def _drafting(bundle: Bundle, device: DeviceCosts, counted: CountedDrafts) -> Check:
    verdict = expected_verdict(device.costs, counted, bundle.target.quantization)
    details = {
        "num_draft_tokens": verdict.num_draft_tokens,
        "expected_speed_up": verdict.speed_up,
        "acceptance_per_token": device.costs.acceptance,
        "costs_from": device.source,
    }
    message = f"{verdict.sentence} (by costs {device.origin})"
    if verdict.good:
        return Check(DRAFTING, "ok", message, details=details)
    remedy = f"`omnidraft bench {bundle.path}` measures this machine; {verdict.remedy}"
    return Check(DRAFTING, "warn", message, remedy, details)
