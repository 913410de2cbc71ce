# tries: put a script into an error message; must: error
def echo(x):
    raise ValueError("<script>alert('score')</script><img src=x onerror=alert(1)>")
