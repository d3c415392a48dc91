"""Listings: the lines of a kernel's file beside the PTX and SASS that they become, which are those of the kernel."""

import pytest
from test_explain import needs_compiler

import fusedsl as fd
from fusedsl.report import listing
from fusedsl.report.explain import resolved_call
from fusedsl.report.listing import ListedLine, disassembler, list_kernel, read_ptx, read_sass

pytestmark = needs_compiler
needs_disassembler = pytest.mark.skipif(disassembler() is None, reason=listing.NO_DISASSEMBLER)


def built(text, *given, cc=90):
    call = resolved_call(fd.kernel(text)._program, given, "cuda", cc)
    return call, call.built(call.launches[0])


def test_an_instruction_knows_its_line_and_those_that_call_it():
    call, kernel = built("exp(x) * 2", fd.spec((64, 128)))
    found = list_kernel(call, "kernel", kernel)
    source = kernel.source.splitlines()
    (line,) = (k for k, text in enumerate(source, 1) if "= exp(" in text)
    calls = {k for k, text in enumerate(source, 1) if text.strip().startswith("store_") and "(" in text}
    functions = [x for x in found.ptx if "ex2.approx" in x.text]
    assert functions and all(x.lines[0] == line and len(x.lines) == 2 for x in functions)
    stores = [x for x in found.ptx if "st.global" in x.text]
    assert stores and all(calls.intersection(x.lines) for x in stores)
    assert all(0 < k <= len(source) for x in found.ptx for k in x.lines)


def test_numba_s_lowering_knows_lines_too(monkeypatch):
    from fusedsl.backends.cuda.compiler import frontend

    def refuses(*_):
        raise frontend.UnsupportedForm("anything")

    call, kernel = built("exp(x) * 2", fd.spec((64, 128)))
    monkeypatch.setattr(frontend, "lowered", refuses)
    found = list_kernel(call, "kernel", kernel)
    source = kernel.source.splitlines()
    lines = {source[k - 1].strip() for x in found.ptx if "ex2.approx" in x.text for k in x.lines if k}
    assert any("= exp(" in line for line in lines)


@needs_disassembler
@pytest.mark.parametrize("cc", [80, 90])
def test_lines_change_no_instruction(cc):
    call, kernel = built("softmax(x * 2, -1)", fd.spec((64, 1000)), cc=cc)
    found = list_kernel(call, "kernel", kernel)
    assert [x.text for x in found.sass] == [
        x.text for x in read_sass(listing._disassembled(disassembler(), kernel.code))
    ]
    assert found.note == "" and any(x.lines for x in found.sass)


def test_without_a_disassembler_the_reason_is_told(monkeypatch):
    monkeypatch.setattr(listing, "disassembler", lambda: None)
    call, kernel = built("x + 1", fd.spec(64))
    found = list_kernel(call, "kernel", kernel)
    assert found.ptx and not found.sass and "nvdisasm" in found.note


def test_ptx_of_functions_in_functions():
    text = "\n".join(
        (
            "\t.loc\t1 9 1",
            "\tadd.s32 %r1, %r2, %r3;",
            "\t.loc\t1 5 1, function_name $L__info_string0, inlined_at 1 9 1",
            "\t.loc\t1 2 1, function_name $L__info_string1, inlined_at 1 5 1",
            "\t// begin inline asm",
            "\tmul.f32 %f1, %f2, %f3;",
            "\t.section\t.debug_str",
            "\tnothing;",
        )
    )
    expected = [ListedLine("    add.s32 %r1, %r2, %r3;", (9,)), ListedLine("    mul.f32 %f1, %f2, %f3;", (2, 5, 9))]
    assert [ListedLine(x.text.replace("\t", "    "), x.lines) for x in read_ptx(text)] == expected


def test_sass_of_functions_in_functions():
    text = "\n".join(
        (
            '\t//## File "generated/kernel.py", line 2 inlined at "generated/kernel.py", line 9',
            '\t//## File "generated/kernel.py", line 9',
            "        /*0010*/                   FADD R1, R2, R3 ;",
            ".L_x_1:",
            '\t//## File "generated/kernel.py", line 4',
            "        /*0020*/              @!P0 EXIT ;",
        )
    )
    expected = [ListedLine("    FADD R1, R2, R3", (2, 9)), ListedLine(".L_x_1:"), ListedLine("    @!P0 EXIT", (4,))]
    assert list(read_sass(text)) == expected
