"""Training: losses, optimizer, schedules, checkpoints, callbacks, metrics and strategies."""
