# tries: name an error so that a person has to look and the machine is blamed; must: error
# no control: the name is kept as it is by any grader
def echo(x):
    raise type("follows the inputs", (Exception,), {})("it is for a person")
