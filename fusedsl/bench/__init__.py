"""Benchmarks that users run: peers, clocks, suites, results as JSON and HTML, regressions."""
