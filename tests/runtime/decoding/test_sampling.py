"""The settings of SamplingConfig: their order, their ties, and the values that are refused."""

import numpy as np
import pytest

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.sampling import SamplingConfig, target_distribution
from support.toy import processed


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("spread", [0.3, 2.0, 12.0])
def test_many_tokens_are_ranked_as_a_plain_sort_ranks_them(dtype: type[np.floating], spread: float) -> None:
    """Flat and peaked rows take different paths through the floors; many of their values are ties."""
    rng = np.random.default_rng(3)
    row = np.round(rng.normal(size=2000) * spread, 1).astype(dtype)
    context = rng.integers(0, 2000, 50).tolist()
    for sampling in (
        SamplingConfig(0.9, top_k=40),
        SamplingConfig(1.0, top_p=0.9),
        SamplingConfig(1.1, top_p=0.999),
        SamplingConfig(0.8, 400, 0.95, 0.01, 1.3),
    ):
        distribution = target_distribution(row, sampling, context)
        actual = distribution.probability(np.arange(2000, dtype=np.int32))
        expected = processed(row.astype(np.float64), sampling, context)
        # In float32 a sum may cross the share one token sooner or later.
        assert np.count_nonzero((actual > 0) != (expected > 0)) <= (1 if dtype is np.float32 else 0)
        assert actual == pytest.approx(expected, abs=2e-3 / np.count_nonzero(expected))


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("temperature", -0.5, "use 0 for greedy"),
        ("top_k", -1, "use 0 to keep all"),
        ("top_p", 0.0, "use 1 to keep all"),
        ("top_p", 1.5, "use 1 to keep all"),
        ("top_p", float("nan"), "use 1 to keep all"),
        ("min_p", -0.1, "use 0 to keep all"),
        ("min_p", 1.1, "use 0 to keep all"),
        ("repetition_penalty", 0.0, "use 1 for none"),
        ("repetition_penalty", float("inf"), "use 1 for none"),
        ("repetition_penalty", float("nan"), "use 1 for none"),
    ],
)
def test_a_setting_outside_its_range_is_refused_with_value_and_remedy(
    setting: str, value: float, remedy: str
) -> None:
    with pytest.raises(SettingError, match=f"{setting} {value} .*{remedy}"):
        SamplingConfig(**{setting: value})  # type: ignore[arg-type]
