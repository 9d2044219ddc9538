"""Writes stats.json: what scipy, numpy and statsmodels say of fixed samples.

    pip install numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0
    python tests/reference/stats.py > tests/reference/stats.json
"""

import json

import numpy as np
from scipy import stats
from scipy.stats._resampling import BootstrapResult
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(20)


def counts(middle, n):
    """Counts of failures as they come: skewed, with ties."""
    return rng.negative_binomial(4, 4 / (4 + middle), n).astype(float).tolist()


def method_of(name):
    """A median left out has no acceleration: scipy's BCa has no answer there."""
    return "percentile" if name.startswith("median") else "BCa"


def fixed_interval(values, name, picks):
    """The interval of scipy over resamples that are given."""
    statistic = STATISTICS[name]
    drawn = np.array([statistic(*[np.array(v)[p] for v in values]) for p in picks])
    before = BootstrapResult(confidence_interval=None, bootstrap_distribution=drawn, standard_error=None)
    made = stats.bootstrap(values, statistic, n_resamples=0, bootstrap_result=before, paired=True,
                           vectorized=False, method=method_of(name))
    return list(made.confidence_interval)


def free_interval(values, name):
    """The interval of scipy over many resamples of its own."""
    made = stats.bootstrap(values, STATISTICS[name], n_resamples=100_000, paired=True, vectorized=False,
                           method=method_of(name), rng=np.random.default_rng(7))
    return list(made.confidence_interval)


STATISTICS = {
    "mean": lambda own, base: np.mean(own),
    "median": lambda own, base: np.median(own),
    "mean_difference": lambda own, base: np.mean(own - base),
    "median_difference": lambda own, base: np.median(own - base),
    "ratio": lambda own, base: np.mean(own) / np.mean(base),
}


def signed_rank(differences, method):
    return {"differences": differences, "p": float(stats.wilcoxon(differences, method=method).pvalue)}


def main():
    own, base = counts(12, 40), counts(20, 40)
    few_own, few_base = own[:13], base[:13]
    picks = rng.integers(0, 13, (99, 13))
    apart = (np.array(own) - np.array(base)).tolist()
    distinct = rng.normal(0.4, 1, 50).tolist()
    many = (np.array(counts(12, 240)) - np.array(counts(14, 240))).tolist()
    values = [0.001, 0.04, 0.04, 0.2, 0.012, 0.9]
    out = {
        "own": own,
        "base": base,
        "quantiles": [[q, float(np.quantile(own, q))] for q in (0, 0.025, 0.25, 0.5, 0.75, 0.9, 1)],
        "picks": picks.ravel().tolist(),
        "fixed": {name: fixed_interval((few_own, few_base), name, picks) for name in STATISTICS},
        "free": {name: free_interval((own, base), name) for name in STATISTICS},
        "signed_rank": [
            signed_rank(distinct[:10], "exact"),
            signed_rank(distinct, "exact"),
            # All signs of 13 tied differences: exact.
            signed_rank(apart[:13], stats.PermutationMethod(n_resamples=10_000)),
            signed_rank(many, "asymptotic"),
        ],
        "cliffs_delta": float(2 * stats.mannwhitneyu(own, base).statistic / (len(own) * len(base)) - 1),
        "holm": {"p": values, "corrected": multipletests(values, method="holm")[1].tolist()},
        "normal_cdf": [[z, float(stats.norm.cdf(z))] for z in (-12, -4.5, -3, -1.96, -0.3, 0, 0.5, 2.9, 3.5)],
        "normal_quantile": [[p, float(stats.norm.ppf(p))] for p in (1e-12, 0.001, 0.025, 0.4, 0.975, 0.9999)],
    }
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in out.items())
    print("{\n" + ",\n".join(lines) + "\n}")


main()
