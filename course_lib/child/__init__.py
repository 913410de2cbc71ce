"""What has to happen in another process: a student's code taken out, run and compiled there."""
