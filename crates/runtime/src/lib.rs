//! A shard per core: tasks, files, sockets, timers; the simulated disk.
