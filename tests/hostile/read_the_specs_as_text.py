# tries: read the answers as text, and the solutions wherever they lie; must: error, incorrect
import os


def predict_doubling():
    import course_lib

    here = os.path.dirname(course_lib.__file__)
    for folder, _, files in os.walk(os.path.dirname(here)):
        for file in files:
            if "lesson_01" in file or "01_naive" in file:
                open(os.path.join(folder, file)).read()
                return 4, 2
    open(os.path.join(here, "grading", "specs", "lesson_01.py")).read()
    return 4, 2
