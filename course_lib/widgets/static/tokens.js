// Written by `course build` from course_lib/style/palette.py: edit that.
const COLOUR = {"naive": "#d55e00", "flash": "#0072b2", "q": "#56b4e9", "k": "#009e73", "v": "#cc79a7", "o": "#f0e442", "s": "#d55e00", "hand": "#8250f0", "other": "#8a8a8a"};
const PROVENANCE = {"formula": "line", "ledger": "dot", "measured": "diamond"};
