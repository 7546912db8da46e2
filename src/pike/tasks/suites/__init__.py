"""The suites that come with PIKE: one folder a suite, one KernelBench-format file a task.

Knows nothing: the files are data, read as text and executed only by the judge (`pike.tasks.shipped` lists them).
"""
