"""`check_source`: which directives pass, and that none hides from the scan."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qgpu.cuda.source import HEADERS, MAX_SOURCE_BYTES, check_source
from qgpu.errors import FrontEndError


@pytest.mark.parametrize("source", [
    "#include <stdint.h>", '#include "stdio.h"', "#  include\t<cuda_runtime.h> // why", "%:include <cmath>", "/* a */ # /* b */ include /* c */ <cstdio>",
    '// #include "/etc/passwd"', '/*\n#include "/etc/passwd"\n*/', 'const char *s = "\\\n#include <x>";', "char c = '\"'; // \"", "int a = 1'000'000;",
    "int x = a # b;", '"#include <nothing>"', "#define S(x) #x", "#define include 3", "#ifdef __has_include\n#if __has_include(<vector>)\n#endif\n#endif",
    "#pragma unroll", "", "int includes;", "#error do not",
])
def test_accepted(source):
    assert check_source(source, "a.cu") == source


@pytest.mark.parametrize(("source", "line"), [
    ('#include "/etc/passwd"', 1), ("#include </etc/passwd>", 1), ('#include "../x.h"', 1), ('\n\n#include "mine.h"', 3), ("#include <../stdint.h>", 1),
    ("#include MACRO", 1), ('#inc\\\nlude "/etc/passwd"', 1), ('#inc\\  \nlude "/etc/passwd"', 1), ('int a;\\\n\n#include "x"', 3),
    ('/* */ # /* \n */ include "/etc/passwd"', 1), ('%: include "x"', 1), ('#include_next "x"', 1), ('#import "x"', 1), ('#embed "/etc/passwd"', 1),
    ('char c = \'"\';\n#include "x"', 2), ('char c = \'/*\';\n#include "x"\n// */', 2), ('const char *s = "/*";\n#include "x"\n/* */', 2),
    ('int a = 1\'0; // \'/*\n#include "x"\n/* */', 2), ('#if 0\n#elif 1 //\\\nx\n#include "x"\n#endif', 4), ('??=include "x"', 1), ('// ??/\n#include "x"', 1),
    ("int a = R\"(\n)\";", 1), ("/* open", 1), ("int a;\n#error don't /*", 2), ('const char *s = "open', 1), ("a\0b", 1), ("#if __has_include(\"/etc/shadow\")", 1),
    ("#if __has_include(NAME)", 1), ("#include", 1), ("\r#include \"x\"", 2), ("int a;\r\n#include \"x\"", 2), ("#include <stdint.h", 1), ("\ud800", 1),
])
def test_refused_with_its_line(source, line):
    with pytest.raises(FrontEndError) as caught:
        check_source(source, "a.cu")
    assert caught.value.where == f"a.cu:{line}"
    assert caught.value.fix


def test_too_large():
    with pytest.raises(FrontEndError, match="too large"):
        check_source("é" * (MAX_SOURCE_BYTES // 2 + 1), "a.cu")


def test_line_ends_are_made_one_kind():
    assert check_source("\ufeffa\r\nb\rc\n", "a.cu") == "a\nb\nc\n"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["#", "include", " ", "\n", "\\\n", "<stdint.h>", '"x"', "/*", "*/", "//", '"', "'", "R\"", "a", "1'0", "%:", "\\", "??", "/"]), max_size=25))
@example(["include", "'", "/*", "'"])
def test_no_refused_header_passes(pieces):
    """Whatever passes holds no directive for "x", as a second, cruder reading sees it: splices out, comments and strings out, line by line."""
    source = "".join(pieces)
    try:
        text = check_source(source, "a.cu")
    except FrontEndError as error:
        assert error.where.startswith("a.cu")
        return
    for line in plain_lines(text.replace("\\\n", "")):
        words = line.replace("%:", "#").replace("#", " # ").split()
        if words[:2] == ["#", "include"]:
            assert words[2] in {f"<{h}>" for h in HEADERS} | {f'"{h}"' for h in HEADERS}


def plain_lines(text):
    """Lines with comments as blanks, by a character at a time; strings are kept, as an include's name may be one."""
    out, at, quote = [], 0, ""
    while at < len(text):
        if not quote and text.startswith("//", at):
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif not quote and text.startswith("/*", at):
            at = text.find("*/", at + 2) + 2 if "*/" in text[at + 2:] else len(text)
            out.append(" ")
        else:
            c = text[at]
            digits_before = at > 0 and text[at - 1].isalnum()
            if quote and c == "\\":
                out.append(text[at:at + 2])
                at += 2
                continue
            if c == quote:
                quote = ""
            elif not quote and (c == '"' or c == "'" and not digits_before):
                quote = c
            out.append(c)
            at += 1
    return "".join(out).split("\n")


def test_time_is_linear():
    start = time.process_time()
    check_source("#include <stdint.h>\n/* */ int a; \\\n" * 20000, "a.cu")
    assert time.process_time() - start < 8
