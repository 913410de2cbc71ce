# tries: raise an exception whose text raises; must: error
class Unprintable(BaseException):
    def __str__(self):
        raise SystemExit

    __repr__ = __str__


def echo(x):
    raise Unprintable
