# tries: raise an exception whose text raises; must: error
# before a careless grader: ends the process
class Unprintable(BaseException):
    def __str__(self):
        raise SystemExit

    __repr__ = __str__


def echo(x):
    raise Unprintable
