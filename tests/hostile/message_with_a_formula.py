# tries: put a spreadsheet's formula into an error message; must: error
# before a careless grader: prints =HYPERLINK(
class Formula(Exception):
    pass


Formula.__name__ = Formula.__qualname__ = '=HYPERLINK("http://127.0.0.1","x")'


def echo(x):
    raise Formula("@SUM(1+1)*cmd|' /C calc'!A0")
