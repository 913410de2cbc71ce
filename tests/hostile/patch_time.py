# tries: stop the clock, then loop; must: incorrect
# without the sandbox: never ends
import time


def echo(x):
    time.monotonic = time.time = time.perf_counter = time.process_time = lambda: 0.0
    while True:
        pass
