"""One window for all openings: a later start hands its files to the first one."""
