"""Checks of a bundle on this machine: memory, and the speed of the default mode."""

from dataclasses import asdict

from omnidraft.doctor.check import DRAFTING, Check
from omnidraft.pair_verdict import EXPECTED, counted_texts, estimated_speed, speed_verdict
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.device.device_costs import DeviceCosts


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


def drafting_check(bundle: Bundle, device: DeviceCosts) -> Check:
    """The speed of the default mode by the costs that are known here."""
    texts = counted_texts(bundle.manifest)
    if texts is None:
        return Check(
            DRAFTING,
            "warn",
            "the manifest does not have it",
            "run `omnidraft export` again, or `omnidraft bench`",
        )
    speed = estimated_speed(texts, device.costs)
    verdict = speed_verdict(speed, EXPECTED, learns=not bundle.drafter.is_absent)
    details = {**asdict(speed), "costs_from": device.source}
    message = f"{verdict.sentence} (by costs {device.origin})"
    if verdict.good:
        return Check(DRAFTING, "ok", message, details=details)
    remedy = f"`omnidraft bench {bundle.path}` measures this machine; {verdict.remedy}"
    return Check(DRAFTING, "warn", message, remedy, details)
