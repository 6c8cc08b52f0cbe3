"""What a bucket says of its budget after a batch."""

from __future__ import annotations

from typing import Any

from thalweg.driver.bucket_driver import BucketDriver
from thalweg.spark.bucket_spec import Spec
from thalweg.spark.prices import Prices


def spending_report(driver: BucketDriver, spec: Spec, prices: Prices) -> dict[str, Any] | None:
    """As JSON; None: it runs without one."""
    if driver.budgeting.batches is None or driver.budgeting.used is None:
        return None
    used = driver.budgeting.used
    spent = used.spent
    wanted, allowed = spent.wanted.sum(axis=1).tolist(), spent.allowed.sum(axis=1).tolist()
    report: dict[str, Any] = {
        "budget": driver.budgeting.batches.budget.text,
        "needed": used.needed,
        "granted": used.granted,
        "wanted": sum(wanted),
        "allowed": sum(allowed),
        "refused": sum(wanted) - sum(allowed),
        "hopeless": int(spent.hopeless.sum()),
        "found": int(spent.results.sum()),
        "full": spent.full,
        "variance": spent.variance,
        "streams": {alias: list(pair) for alias, *pair in zip(spec.query.aliases, wanted, allowed, strict=True)},
    }
    of_streams = zip(spec.query.aliases, spent.results.tolist(), spent.estimates, spent.variances, strict=True)
    report["by_stream"] = {alias: [found, float(full), float(variance)] for alias, found, full, variance in of_streams}
    report["queries"] = {name: [each.found, each.full, each.variance] for name, each in driver.estimates.items()}
    if spec.policies.target_us is not None:
        report |= {
            "target": spec.policies.target_us / 1e6,
            "prices": prices.to_json(),
            "identity": spec.identity,
        }
    return report
