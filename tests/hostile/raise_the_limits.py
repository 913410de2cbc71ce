# tries: raise its own limits; must: error
# without the sandbox: passed
import resource


def echo(x):
    for name in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE):
        resource.setrlimit(name, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return x.copy()
