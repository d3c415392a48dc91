"""Texts become trees with places; what is not a program is refused with the place and the form to use."""

import ast
import gc
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedsl.errors import FusedslError, LimitError, ParseError, UnknownNameError
from fusedsl.lang import lexer, prelude, syntax_tree
from fusedsl.lang import parse as parse_module
from fusedsl.lang.parse import parse, parse_definitions
from fusedsl.lang.printer import show
from fusedsl.lang.syntax_tree import children, free_names, postorder


def only(text):
    (result,) = parse(text).results
    return result


# ---- an oracle: Python's own parser agrees on the tree and on every span

PYTHON_OPS = {
    "Add": "+",
    "Sub": "-",
    "Mult": "*",
    "Div": "/",
    "FloorDiv": "//",
    "Mod": "%",
    "MatMult": "@",
    "Pow": "**",
}
PYTHON_OPS |= {"BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>", "And": "and", "Or": "or"}
PYTHON_OPS |= {"UAdd": "+", "USub": "-", "Invert": "~", "Not": "not", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}
PYTHON_OPS |= {"Eq": "==", "NotEq": "!="}


def op_name(op):
    return PYTHON_OPS[type(op).__name__]


def python_tree(node):
    """Python's tree of an expression as nested tuples; each with its span, except where Python has none to compare."""
    if node is None:
        return None
    span = (node.col_offset, node.end_col_offset)
    match node:
        case ast.Constant():
            return ("literal", span, repr(node.value))
        case ast.Name(id="inf" | "nan" | "pi" as word):
            return ("literal", span, repr(lexer.CONSTANTS[word]))
        case ast.Name():
            return ("name", span, node.id)
        case ast.UnaryOp():
            return (op_name(node.op), span, python_tree(node.operand))
        case ast.BinOp():
            return (op_name(node.op), span, python_tree(node.left), python_tree(node.right))
        case ast.BoolOp():  # Python keeps `a or b or c` flat
            first, *rest = node.values
            tree = python_tree(first)
            for i, value in enumerate(rest):
                end = span[1] if i == len(rest) - 1 else None
                tree = (op_name(node.op), (span[0], end), tree, python_tree(value))
            return tree
        case ast.Compare():
            return ("compare", span, *map(op_name, node.ops), *map(python_tree, [node.left, *node.comparators]))
        case ast.IfExp():
            return ("if", span, *map(python_tree, (node.body, node.test, node.orelse)))
        case ast.Attribute():
            return (f".{node.attr}", span, python_tree(node.value))
        case ast.Subscript():
            many = isinstance(node.slice, ast.Tuple)
            indices = node.slice.elts if many else [node.slice]
            return ("index", span, python_tree(node.value), *map(python_tree, indices))
        case ast.Slice():
            return ("slice", span, *map(python_tree, (node.lower, node.upper, node.step)))
        case ast.Tuple() | ast.List():
            return (type(node).__name__.lower(), span, *map(python_tree, node.elts))
        case ast.Call():
            named = [(word.arg, python_tree(word.value)) for word in node.keywords]
            return ("call", span, node.func.id, *[(None, python_tree(a)) for a in node.args], *named)
    raise AssertionError(ast.dump(node))


def our_tree(node):
    if node is None:
        return None
    if isinstance(node, syntax_tree.CallExpr):
        return ("call", node.span, node.function, *[(a.keyword, our_tree(a.value)) for a in node.arguments])
    parts = [our_tree(part) for part in children(node)]
    match node:
        case syntax_tree.Literal():
            return ("literal", node.span, repr(node.value))
        case syntax_tree.Name():
            return ("name", node.span, node.name)
        case syntax_tree.UnaryOp() | syntax_tree.BinaryOp():
            return (node.op, node.span, *parts)
        case syntax_tree.Compare():
            return ("compare", node.span, *node.ops, *parts)
        case syntax_tree.Conditional():
            return ("if", node.span, *parts)
        case syntax_tree.Attribute():
            return (f".{node.name}", node.span, *parts)
        case syntax_tree.Subscript():
            return ("index", node.span, *parts)
        case syntax_tree.Slice():
            return ("slice", node.span, *map(our_tree, (node.start, node.stop, node.step)))
        case syntax_tree.Sequence():
            return (node.kind, node.span, *parts)
    raise AssertionError(node)


def without_inner_ends(tree):
    """Python gives no span to the inner operations of `a or b or c`, so those ends are left out of both sides."""
    if not isinstance(tree, tuple):
        return tree
    if tree and tree[0] in ("or", "and"):
        return (tree[0], tree[1][0], *map(without_inner_ends, tree[2:]))
    return tuple(map(without_inner_ends, tree))


def spread(draw, text):
    """The same text with some brackets and blanks around it."""
    return draw(st.sampled_from(["{}", "({})", "( {} )", "(({}))"])).format(text)


@st.composite
def expressions(draw, depth=4):
    if depth == 0:
        return draw(st.sampled_from(["a", "b", "x_1", "2", "1.5", "0x1F", "1_000", "1e-3", ".5", "pi", "inf", "True"]))
    inner = expressions(depth=draw(st.integers(0, depth - 1)))
    one, two, three = (spread(draw, draw(inner)) for _ in range(3))
    binary = ["+", "-", "*", "/", "//", "%", "@", "**", "&", "|", "^", "<<", ">>", "and", "or", "<", "<=", "==", "!="]
    forms = [
        *[f"({one}) {op} ({two})" for op in binary],
        *[f"{one} {op} {two}".replace("not", "a") for op in binary],
        *[f"{op} ({one})" for op in ("-", "+", "~", "not")],
        f"({one}) if ({two}) else ({three})",
        f"({one}).T",
        f"f({one}, g({two}), key={three})",
        f"f(({one},), [{two}, {three}], 'text')",
        f"({one})[{two}, None, ..., ({three}):, ::({one})]",
        f"a[{two}][({three}):({one}):2]",
        f"({one}) < ({two}) <= ({three})",
    ]
    return draw(st.sampled_from(forms))


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_trees_and_spans_are_pythons(text):
    try:
        expected = python_tree(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        with pytest.raises(ParseError):
            parse(text)
        return
    assert without_inner_ends(our_tree(only(text))) == without_inner_ends(expected)


def is_span(part):
    return isinstance(part, tuple) and len(part) == 2 and all(isinstance(end, int) for end in part)


def shape_of(tree):
    """The tree without spans."""
    return tuple(shape_of(part) for part in tree if not is_span(part)) if isinstance(tree, tuple) else tree


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_a_printed_tree_parses_to_the_same_tree(text):
    try:
        tree = only(text)
    except ParseError:
        return
    printed = show(tree)
    assert shape_of(our_tree(only(printed))) == shape_of(our_tree(tree))
    assert printed.isascii() and "\n" not in printed
    assert show(only(printed)) == printed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((a)+(b*c))*-(d**2)", "(a + b * c) * -d**2"),
        ("(-a)**-b", "(-a)**-b"),
        ("a-(b-c)-d", "a - (b - c) - d"),
        ("(a**b)**c**d", "(a**b)**c**d"),
        ("not (a and b)or c", "not (a and b) or c"),
        ("(a<b)==(c<d)", "(a < b) == (c < d)"),
        ("(a if b else c) if d else (e if f else g)", "(a if b else c) if d else e if f else g"),
        ("(2).T + (a+b).mT", "(2).T + (a + b).mT"),
        ("f((1,),[2,],k=(a if b else c))", "f((1,), [2], k=a if b else c)"),
        ("x[(1,2)] + x[a:b:c,None,...,::2]", "x[1, 2] + x[a:b:c, None, ..., ::2]"),
        ("x[()]", "x[...]"),
        ("a<(b&c)<=(d^e)<(f&g)", "a < (b & c) <= (d ^ e) < f & g"),
    ],
)
def test_printing_keeps_only_the_brackets_that_matter(text, printed):
    assert show(only(text)) == printed


# ---- programs


def test_the_program_of_the_language_page():
    program = parse("""
        mu = mean(x, axis=-1, keepdims=True)          # statements on lines or separated by ;
        swish(t, beta=1) = t * sigmoid(beta * t)      # a function
        v, i = topk(x, 8); n = v[
            i, 0     # newlines inside brackets join
        ]
        return (x - mu) * rsqrt(var(x, axis=-1, keepdims=True) + eps) * gamma + beta, swish(n)
    """)
    assert [show(s) for s in program.statements] == [
        "mu = mean(x, axis=-1, keepdims=True)",
        "swish(t, beta=1) = t * sigmoid(beta * t)",
        "v, i = topk(x, 8)",
        "n = v[i, 0]",
    ]
    assert len(program.results) == 2 and [f.name for f in program.functions] == ["swish"]
    assert [name for name, _ in free_names(program)] == ["x", "eps", "gamma", "beta"]


@pytest.mark.parametrize("text", ["return a, b", "a, b", "(a, b)", "a, b;", "\n\n  a, b\n", "return (a,\n b)"])
def test_results_may_be_written_bare_or_in_brackets(text):
    assert [r.name for r in parse(text).results] == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["y = a; y", "y = a\ny", "y = a\r\ny\r\n", "  y = a\n  y", "y = a\n    y", "y=a;;y # end"]
)
def test_statements_end_at_newlines_or_semicolons_and_indentation_is_free(text):
    program = parse(text)
    assert len(program.statements) == 1 and program.results[0].name == "y"


def test_free_names_come_in_the_order_of_their_first_reading():
    text = "t = b * a\nf(a, c=d) = a * c + e + t\nb = f(t)\nreturn b + g, cos(cos)"
    found = free_names(parse(text))
    assert [name for name, _ in found] == [text[slice(*span)] for _, span in found] == ["b", "a", "d", "e", "g", "cos"]


def test_a_call_knows_every_place_an_error_may_point_to():
    text = "sum(x, axis=(0, 2))"
    call = only(text)
    (x, axis) = call.arguments
    assert text[slice(*call.function_span)] == "sum" and text[call.close] == ")"
    assert axis.keyword == "axis" and text[slice(*axis.value.span)] == "(0, 2)"
    assert axis.value.items[1].span == (16, 17) and x.keyword is None


def test_a_subscript_knows_its_indices_and_an_operator_its_place():
    text = "(x + w)[::0]"
    found = only(text)
    assert text[slice(*found.indices[0].span)] == "::0" and found.span == (0, len(text))
    assert text[found.value.at] == "+" and text[slice(*found.value.span)] == "x + w"


def test_deep_trees_are_walked_without_recursion():
    tree = only("a" + "+a" * 4000)
    assert sum(1 for _ in postorder(tree)) == 8001
    assert show(tree) == "a" + " + a" * 4000
    power = only("a" + "**a" * 50)
    assert power.right.right.op == "**"


# ---- refusals: the class and the column (None: anywhere)

REFUSED = [
    # what Python would run
    ("().__class__.__bases__", ParseError, 4),
    ("import os;", ParseError, 1),
    ("(*(open('f','w') for q in (1,)),)", ParseError, 2),
    ("(3+1).\\\nbit_length()", ParseError, 7),
    ("a.dtype.type", ParseError, 3),
    ("a.dump('f')", ParseError, 3),
    ("(q := 1)", ParseError, 4),
    ("await a", ParseError, 1),
    ("a @ b.__matmul__", ParseError, 7),
    ("x[:, lambda: 0]", ParseError, 6),
    ("a\x0bimport os", ParseError, 2),
    ("a # comment\n+ b", ParseError, 1),
    ("torch.exp(a)", UnknownNameError, 1),
    ("np.linalg.norm(a)", UnknownNameError, 1),
    # characters
    ("a ` b", ParseError, 3),
    ("0x1g", ParseError, 1),
    ("01", ParseError, 1),
    ("1.2.3", ParseError, 1),
    ("0b12", ParseError, 1),
    ("1.5j", ParseError, 1),
    ("1__0", ParseError, 1),
    ("a + 3x", ParseError, 5),
    ('"x"', ParseError, 1),
    ("'x' + a", ParseError, 1),
    ("f(f'x')", ParseError, 3),
    ("f('x", ParseError, 3),
    (r"f('\n')", ParseError, 4),
    ("f('''x''')", ParseError, 3),
    ("\ufeffa + b", ParseError, 1),
    ("a \xd7 b", ParseError, 3),
    ("a\xa0+ b", ParseError, 2),
    ("\u0663 + a", ParseError, 1),
    ("a # \xe9", ParseError, 5),
    ("a\rb", ParseError, 2),
    ("n" * 65, ParseError, 1),
    # shapes of text
    ("", ParseError, 1),
    ("   ", ParseError, 4),
    ("# nothing", ParseError, 10),
    ("+", ParseError, 1),
    ("a +", ParseError, 4),
    ("a + ", ParseError, 5),
    ("a)", ParseError, 2),
    ("(a]", ParseError, 3),
    ("exp a", ParseError, 5),
    ("x[0", ParseError, 4),
    ("where(m, a", ParseError, 11),
    ("a += b", ParseError, 3),
    ("a => b", ParseError, 3),
    ("a ! b", ParseError, 3),
    ("a || b", ParseError, 3),
    ("a && b", ParseError, 3),
    ("a is b", ParseError, 3),
    ("a not in b", ParseError, 3),
    ("a ** ** b", ParseError, 6),
    ("a == not b", ParseError, 6),
    ("a,", ParseError, 2),
    ("a if b", ParseError, 7),
    ("f(a if b, c)", ParseError, 9),
    ("2(x)", ParseError, 2),
    ("f(x)(y)", ParseError, 5),
    ("x[]", ParseError, 3),
    ("[a, b]", ParseError, 1),
    ("(a, b) + c", ParseError, 1),
    ("f(x; y)", ParseError, 4),
    # arguments
    ("sum(x, axis=)", ParseError, 13),
    ("sum(x, axis=1, axis=0)", ParseError, 16),
    ("sum(axis=0, x)", ParseError, 13),
    ("f(*a)", ParseError, 3),
    ("f(2=a)", ParseError, 4),
    ("f(pi=a)", ParseError, 5),
    ("f(a:b)", ParseError, 4),
    # statements
    ("y = a", ParseError, 3),
    ("y = a\nz = y", ParseError, 3),
    ("f(x) = x", ParseError, 6),
    ("a\nb", ParseError, 1),
    ("return a\nb", ParseError, 1),
    ("y = a\n    + b", ParseError, 5),
    ("y = a\n    - b", ParseError, 5),
    ("\ny = a\n  y", ParseError, 3),
    ("a = b = c", ParseError, 7),
    ("x[0] = 1", ParseError, 1),
    ("pi = 3", ParseError, 1),
    ("a + b = c", ParseError, 1),
    ("a, b = c, d", ParseError, 8),
    ("a, a = f(x)", ParseError, 4),
    ("f(x, 2) = x; f(1)", ParseError, 6),
    ("f(x, x) = x; f(1)", ParseError, 6),
    ("x.sum(axis=0)", ParseError, 3),
    ("x.shape", ParseError, 3),
    ("x.T()", ParseError, 3),
    # limits
    ("(" * 1000 + "a" + ")" * 1000, LimitError, 257),
    ("(" * 1_000_000 + "a" + ")" * 1_000_000, LimitError, None),
    ("-" * 10_000 + "a", LimitError, 257),
    ("not " * 1000 + "a", LimitError, 1025),
    ("exp(" * 1000 + "a" + ")" * 1000, LimitError, 1028),
    ("a" + "+a" * 5000, LimitError, 8194),
    ("9" * 5000, LimitError, 1),
    ("a + 0." + "1" * 40, LimitError, 5),
    ("0." + "1" * 100_000, LimitError, None),
    (" " * 10_000_000 + "a", LimitError, None),
]


@pytest.mark.parametrize(("text", "error", "column"), REFUSED, ids=[repr(text[:40]) for text, _, _ in REFUSED])
def test_what_is_no_program_is_refused_at_its_column(text, error, column):
    gc.disable()  # what the tests before have left is collected in no time of this one
    try:
        start = time.process_time()
        with pytest.raises(FusedslError) as caught:
            parse(text)
        assert time.process_time() - start < 2
    finally:
        gc.enable()
    assert type(caught.value) is error and caught.value.column == column
    assert caught.value.code and caught.value.text == text and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("x.sum(axis=0)", "sum(x, axis=0)"),
        ("(a + b).clamp(0)", "clip(a + b, 0)"),
        ("x.shape[0]", "size(x, axis)"),
        ("a || b", "|"),
        ("a += b", "a = a + value"),
        ("a is b", "=="),
        ("a \xd7 b", "*"),
        ("\u03b1 + 1", "alpha"),
        ("2(x)", "2 * "),
        ("exp a", "exp(a)"),
        ("f = lambda x: x", "f(x) = "),
        ("x[0] = 1; x", "where"),
        ("012", "12"),
        ("torch.exp(a)", "exp(a)"),
        ("y = a +\n b", "brackets"),
    ],
)
def test_a_refusal_names_the_form_to_use(text, form):
    with pytest.raises(FusedslError) as caught:
        parse(text)
    assert form in caught.value.help


LEGAL = [
    "a" + "+a" * 900,
    "a" + "**a" * 50,
    "x[(((((0)))))]",
    "x + y[:, None, :, None]",
    "a == b != a",
    "a or b",
    "i // 0",
    "x == 'tanh'",
    "f('tanh', [1, (2, 'b')], dtype=int8)",
    "nan_to_num(x, nan=0)",
    "j <= (i & (i - j)) < 8",
    "j & 1 < i + 1 < n | 8",
    "00 + 0x_1f + 0o17 + 0b1_0 + 1. + .5e-3",
    "(" * 200 + "a" + ")" * 200,
]


@pytest.mark.parametrize("text", LEGAL, ids=[repr(text[:40]) for text in LEGAL])
def test_what_is_legal_parses(text):
    assert len(parse(text).results) == 1


def test_limits_can_be_moved():
    deep = "(" * 300 + "a" + ")" * 300
    with pytest.raises(LimitError):
        parse(deep)
    assert parse(deep, {"nesting": 300}).results[0].name == "a"
    with pytest.raises(LimitError) as caught:
        parse("a + b + c", {"operations": 1})
    assert caught.value.code == "limit.operations" and caught.value.column == 7
    with pytest.raises(LimitError):
        parse("1" * 5000, {"literal": 5000})


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab f(),[]:=.+-*/<>!&|~'\"\\#\n;01eE_xj\t\r\x00é if else not return T"), max_size=40))
def test_any_text_parses_or_is_refused_by_our_errors(text):
    try:
        parse(text)
    except FusedslError as error:
        assert error.text == text
        assert str(error) and (error.column is None or 1 <= error.column <= len(text) + 1)


# ---- the prelude


@pytest.mark.parametrize("name", sorted(prelude.names()))
def test_a_prelude_function_can_be_copied_into_a_text(name):
    copied = prelude.source(name)
    definitions = parse_definitions(copied)
    assert definitions[-1].name == name and f"\n{name}(" in copied and "# " in copied
    defined = set()
    for definition in definitions:
        called = {part.function for part in postorder(definition.body) if isinstance(part, syntax_tree.CallExpr)}
        assert {function for function in called if function.startswith("_")} <= defined
        defined.add(definition.name)
    parameters = [p.name for p in definitions[-1].parameters if p.default is None]
    program = parse(f"{copied}\n{name}({', '.join(parameters)})")
    assert {free for free, _ in free_names(program)} <= set(parameters)


def test_prelude_choices_are_what_the_body_compares():
    assert prelude.choices("gelu") == {"approximate": ("none", "tanh")}
    assert prelude.definition("no_such_function") is None
    assert not any(name.startswith("_") for name in prelude.names())


def test_only_definitions_belong_in_a_file_of_functions():
    with pytest.raises(ParseError) as caught:
        parse_definitions("f(x) = x\ny = 2")
    assert caught.value.line == 2


def test_importing_the_parser_does_not_import_lark():
    import subprocess
    import sys

    code = f"import sys, {parse_module.__name__}; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
