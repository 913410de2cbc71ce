# tries: put a script into an error message; must: error
# before a careless grader: prints <script>
def echo(x):
    raise ValueError("<script>alert('score')</script><img src=x onerror=alert(1)>")
