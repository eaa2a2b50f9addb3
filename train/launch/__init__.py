"""Several processes that train one model together: on this machine, or by Ray."""
