"""The widgets' CSS and JavaScript have the colours of the table, as `course build` wrote them."""

from __future__ import annotations

import json
import re

from conftest import ROOT

from course_lib.style import palette, tokens

STATIC = ROOT / "course_lib" / "widgets" / "static"


def test_the_written_files_are_what_the_table_makes():
    assert (STATIC / "tokens.css").read_text() == tokens.css()
    assert (STATIC / "tokens.js").read_text() == tokens.javascript()


def test_css_and_javascript_say_the_same_of_each_meaning():
    css = dict(re.findall(r"(--fac-[\w-]+): ([^;]+);", tokens.css()))
    script = json.loads(re.search(r"const COLOUR = (\{.*?\});", tokens.javascript())[1])
    assert set(script) == set(palette.MEANINGS)
    for name, hex_number in script.items():
        hue = re.fullmatch(r"var\((--fac-\w+)\)", css[f"--fac-{name}"])[1]
        assert css[hue] == hex_number == palette.hex_of(name)


def test_every_variable_that_a_style_sheet_uses_is_defined():
    sheets = "".join(file.read_text() for file in STATIC.glob("*.css"))
    used = set(re.findall(r"var\((--fac-[\w-]+)", sheets))
    scripts = "".join(file.read_text() for file in STATIC.glob("*.js"))  # which set some
    assert used <= set(re.findall(r"(--fac-[\w-]+):", sheets)) | set(
        re.findall(r"(--fac-[\w-]+)[:\"]", scripts)
    )
