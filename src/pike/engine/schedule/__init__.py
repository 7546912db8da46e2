"""Many cells (task x contender x precision x repeat) on one pool of workers."""
