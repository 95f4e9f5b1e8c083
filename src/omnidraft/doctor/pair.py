"""Checks of a pair by the measurements of its export: memory, acceptance, and the default mode's speed."""

from dataclasses import asdict

from omnidraft.doctor.check import DRAFTING, Check
from omnidraft.pair_verdict import (
    CHANCE,
    EXPECTED,
    chance_verdict,
    counted_texts,
    estimated_speed,
    speed_verdict,
)
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.device.device_costs import DeviceCosts
from omnidraft.text_quality import MOST_LOSS, read_quality


def memory_check(bundle: Bundle, free: int | None) -> Check:
    """Whether the free memory is enough for a generation."""
    need, plain = memory_need(bundle).total, memory_need(bundle, drafter=False).total
    message = f"{need / 1e6:.0f} MB at the peak"
    if not bundle.drafter.is_absent:
        message += f", {plain / 1e6:.0f} MB without the drafter"
    details = {"needed": need, "without_drafter": plain, "free": free}
    if free is None:
        return Check("memory", "ok", f"{message}; how much is free cannot be told", details=details)
    message += f", and {free / 1e6:.0f} MB are free"
    if need <= free:
        return Check("memory", "ok", message, details=details)
    if plain <= free:
        remedy = "free memory, or go on without the drafter (drafter = false), as generate does by itself"
        return Check("memory", "warn", message, remedy, details)
    remedy = "free memory, or export with --quant int4 or a smaller --max-length"
    return Check("memory", "fail", message, remedy, details)


def health_checks(bundle: Bundle, device: DeviceCosts) -> list[Check]:
    """The acceptance at export, and the speed of the default mode by the costs that are known here."""
    drafting = _drafting(bundle, device)
    return [drafting] if bundle.drafter.is_absent else [_acceptance(bundle), drafting]


def quality_check(bundle: Bundle) -> Check:
    """What the target's form costs in quality of text, as measured at export."""
    quality = read_quality(bundle.manifest)
    if quality is None:
        message = f"not recorded; `omnidraft eval {bundle.path} --source CHECKPOINT` measures it"
        return Check("text quality", "ok", message)
    if not quality.bad:
        return Check("text quality", "ok", quality.whole.sentence, details=quality.as_json())
    form = bundle.target.quantization
    better = "export with --quant auto or int8" if form.startswith("int4") else "--quant fp32 loses less"
    remedy = f"{form} loses more than {100 * MOST_LOSS:.0f} % of perplexity: {better}"
    return Check("text quality", "warn", quality.whole.sentence, remedy, quality.as_json())


_AGAIN = "run `omnidraft export` again, or `omnidraft bench`"
_MISSING = "the manifest does not have it"


def _acceptance(bundle: Bundle) -> Check:
    try:
        measured = bundle.manifest["checks"]["acceptance"]
        before, after = (float(measured[when]["of_drafted"]) for when in ("before", "after"))
        emitted, length = (
            float(measured["after"]["tokens_per_target_pass"]),
            int(measured["num_draft_tokens"]),
        )
    except (KeyError, TypeError, ValueError):
        return Check("acceptance", "warn", _MISSING, _AGAIN)
    message = (
        f"{after:.1%} of the drafter's tokens at export ({before:.1%} with float32 weights); with {length} "
        f"at a time a pass of the target gives {emitted:.2f} tokens"
    )
    details = {
        "before": before,
        "after": after,
        "tokens_per_target_pass": emitted,
        "num_draft_tokens": length,
    }
    if after < CHANCE:
        return Check("acceptance", "warn", message, str(chance_verdict(after)), details)
    return Check("acceptance", "ok", message, details=details)


def _drafting(bundle: Bundle, device: DeviceCosts) -> Check:
    texts = counted_texts(bundle.manifest)
    if texts is None:
        return Check(DRAFTING, "warn", _MISSING, _AGAIN)
    speed = estimated_speed(texts, device.costs)
    verdict = speed_verdict(speed, EXPECTED, learns=not bundle.drafter.is_absent)
    details = {**asdict(speed), "costs_from": device.source}
    message = f"{verdict.sentence} (by costs {device.origin})"
    if verdict.good:
        return Check(DRAFTING, "ok", message, details=details)
    remedy = f"`omnidraft bench {bundle.path}` measures this machine; {verdict.remedy}"
    return Check(DRAFTING, "warn", message, remedy, details)
