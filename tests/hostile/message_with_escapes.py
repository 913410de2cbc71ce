# tries: put terminal escapes and direction marks into an error message; must: error
# before a careless grader: prints \x1b[2J
def echo(x):
    raise ValueError("\x1b[2J\x1b[31mpassed\x1b]0;title\x07 \u202egnorw\u202c \x9b1m")
