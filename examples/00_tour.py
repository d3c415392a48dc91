"""A tour: the features in a few lines each, to run and to read from top to bottom. NumPy here, CuPy where a GPU is.

python examples/00_tour.py [--device cpu|cuda]
"""

import argparse
import pickle
import tempfile

import numpy as np

import fusedsl as fd


def has_gpu() -> bool:
    try:
        import cupy

        return cupy.is_available()
    except ImportError:
        return False


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if has_gpu() else "cpu")
if parser.parse_args().device == "cuda":
    import cupy as xp
else:
    import numpy as xp


def title(text: str) -> None:
    print(f"\n--- {text}")


a, b = xp.arange(6, dtype="float32").reshape(2, 3), xp.ones(3, "float32")
x = xp.asarray(np.random.default_rng(0).standard_normal((512, 1000), dtype=np.float32))

title("1. An expression is evaluated as NumPy would, in one kernel")
print(fd.evaluate("2*a + 3*b", a=a, b=b))  # arrays by name; b is broadcast
print(fd.evaluate("2*a + 3*b"))  # with no array given, names are looked up here, as numexpr does
print(fd.evaluate("a * c", {"a": a, "c": 0.5, "more": x}))  # a mapping may hold more than the expression uses

title("2. A kernel is the same, kept: parsed once, compiled once for these types and ranks, whatever the shapes")
swiglu = fd.kernel("g * sigmoid(g) * u")
print(swiglu, "takes", swiglu.params)
print(swiglu(a, b))  # by position, in the order of params
print(swiglu(u=b, g=a))  # or by name
print(pickle.loads(pickle.dumps(swiglu))(a, b).shape, "after a trip through pickle")

title("3. out= is written in place and returned; it may be an input")
out = xp.empty_like(a)
print(swiglu(a, b, out=out) is out, float(abs(out - swiglu(a, b)).max()))

title("4. A program: statements, functions, several results from one kernel")
statistics = fd.kernel("""
    centre(t) = t - mean(t, axis=-1, keepdims=True)
    c = centre(x)
    deviation = sqrt(mean(c * c, axis=-1, keepdims=True))
    return c / deviation, deviation
""")
standard, deviation = statistics(x)
print(standard.shape, deviation.shape, float(standard.std(axis=-1).mean()))

title("5. Rows: whatever surrounds reductions over the same axis joins them in one kernel")
print(fd.evaluate("softmax(x)", x=x).sum(axis=-1)[:3])
print(fd.evaluate("layer_norm(x, w, w) + x", x=x, w=xp.ones(1000, "float32")).shape)
print(fd.evaluate("argmax(x, axis=-1), max(x, axis=-1)", x=x)[0][:5])

title("6. Views cost nothing: slices, transposes, new axes")
print(fd.evaluate("x[:, 1:] - x[:, :-1]", x=x).shape, fd.evaluate("a.T * 10", a=a).shape)
print(fd.evaluate("sum((p[:, None] - q[None])**2, axis=-1)", p=a, q=b[None]).shape)

title("7. dtypes are NumPy's; float16 and bfloat16 are computed in float32 and rounded once, at the end")
print(fd.evaluate("n / 2 + a[0]", n=xp.arange(3), a=a).dtype)
print(fd.evaluate("float16(a) * 2", a=a).dtype)

title("8. @fd.fuse: an ordinary function, traced once")


@fd.fuse
def gelu(x):
    return 0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x**3)))


@fd.fuse
def norm(x, eps=1e-6):
    return {"normal": x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)}


print(gelu(a))
print(norm(x)["normal"].shape)

title("9. Scans, order and positions are functions of rows, too; what is done with them joins their kernel")
print(fd.evaluate("cumsum(a, -1) / sum(a, -1, keepdims=True)", a=a))
values, places = fd.evaluate("topk(x, 3)", x=x)  # the three largest of each row, and where they are
print(bool((values == fd.evaluate("take_along_axis(x, i, -1)", x=x, i=places)).all()))
print(fd.evaluate("concatenate((a, -a), 0)[i]", a=a, i=xp.asarray([3, 0])))  # gathered, without the joined array

title("10. Products of matrices, and attention: scores and masks are formulas, and no score is stored")
print(fd.evaluate("relu(a @ a.T - 20)", a=a))
q = xp.asarray(np.random.default_rng(0).standard_normal((1, 2, 64, 32), dtype=np.float32))
print(fd.attention(q, q, q, mask="j <= i").shape)

title("11. Lists of arrays of unequal shapes in one launch, and calls whose parameters are filled in once")
print([part.shape for part in fd.foreach("2 * p", [xp.ones(n, "float32") for n in (3, 1, 2000)])])
again = swiglu.bind(a, b)
print(again() is again.result)  # computes anew, in place

title("12. Machine code in a file, for where there is no compiler")
with tempfile.TemporaryDirectory() as folder:
    swiglu.save(f"{folder}/swiglu.fused", np.ones((2, 3), "float32"), np.ones(3, "float32"), cc="cpu")
    print(fd.load(f"{folder}/swiglu.fused")(np.ones((2, 5), "float32"), np.ones(5, "float32")).shape)

title("13. explain() says what a call launches, and why")
print(fd.kernel("softmax(x)").explain(x))

title("14. source() is the generated kernel; read it")
print("\n".join(fd.kernel("x * sigmoid(x)").source(x).splitlines()[:24]), "...", sep="\n")

title("15. resources() asks the real CUDA compiler for a GPU's figures, and needs no GPU")
try:
    print(fd.kernel("softmax(x)").resources(fd.spec((4096, 4096), "float32"), cc=90))
except fd.CompileError as error:  # no numba-cuda here
    print(error)

title("16. options, for one kernel or for a block")
try:
    fd.kernel("softmax(x) - max(x, axis=0)", max_kernels=1)(x)  # a promise, kept or refused
except fd.FusionError as error:
    print(error)
with fd.options(max_kernels=1):
    print(fd.evaluate("x / sum(x, axis=-1, keepdims=True)", x=x).shape)

title("17. Errors show the place, and what to do")
for text, given in (
    ("(x + w) * b", {"x": x, "w": b, "b": b}),
    ("softmx(x)", {"x": x}),
    ("x * (y + ", {"x": x, "y": x}),
    ("max(x, 0)", {"x": x}),
    ("reshape(x, (7, -1))", {"x": x}),
):
    try:
        fd.evaluate(text, given)
    except fd.FusedslError as error:
        print(error, end="\n\n")
