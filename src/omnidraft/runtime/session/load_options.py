"""How a bundle is loaded, as one value: what `load_bundle` takes beside the bundle."""

from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.hashes import VERIFIES, Verify
from omnidraft.runtime.bundle.placement import CPU_GRAPH
from omnidraft.runtime.bundle.signature import PublicKey
from omnidraft.runtime.device.device_costs import MEASURES, Measure
from omnidraft.runtime.models.threads import check_threads
from omnidraft.runtime.session.loaded_bundle import LoadedBundle, load_bundle


@dataclass(frozen=True)
class LoadOptions:
    """How to load a bundle; for the attributes see `load_bundle`."""

    threads: int | None = None
    drafter: bool = True
    target_on: str = CPU_GRAPH
    drafter_on: str = CPU_GRAPH
    public_key: PublicKey | None = None
    verify: Verify = "auto"
    measure: Measure = "auto"

    def check(self) -> None:
        """Refuse a value that no bundle can be loaded with.

        Raises:
            SettingError: naming the value.
        """
        if self.threads is not None:
            check_threads(self.threads)
        for name, value, known in (("verify", self.verify, VERIFIES), ("measure", self.measure, MEASURES)):
            if value not in known:
                names = f"{', '.join(known[:-1])} or {known[-1]}"
                raise SettingError(f"{name} {value!r:.40} is not {names}", "leave it out", setting=name)

    def open(self, path: Path) -> Bundle:
        """The bundle in a directory, checked as these options say."""
        return open_bundle(path, self.public_key, self.verify)

    def load(self, bundle: Bundle) -> LoadedBundle:
        """The graphs of a bundle that `open` has opened."""
        return load_bundle(
            bundle,
            threads=self.threads,
            drafter=self.drafter,
            target_on=self.target_on,
            drafter_on=self.drafter_on,
            public_key=self.public_key,
            measure=self.measure,
        )
