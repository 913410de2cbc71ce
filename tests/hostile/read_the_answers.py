# tries: import the specs, where the answers are; must: error
# without the sandbox: passed
def predict_doubling():
    from course_lib.specs import find

    return find("1.1").truth()
