"""Where problems come from: KernelBench-format files, suites, importable callables and live modules."""
