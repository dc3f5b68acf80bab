"""Numbers that threads of compiled loops have in common: each access is whole, and all see one order."""

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from engine.attention.cpu_vectors import FLOAT, INDEX, Builder, Value

ORDER = "seq_cst"
compiled_in: Any = intrinsic  # which has no types
HAS_PAUSE = binding.get_default_triple().startswith(("x86_64", "i686"))


def _place(context: Any, builder: Builder, kinds: Any, arguments: Any) -> Value:
    """A pointer to numbers[index], of an int64 array and an index."""
    array = context.make_array(kinds[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _changing(operation: str) -> Any:
    """numbers[index] changed by `operation` with a value; it gives what was there."""

    @compiled_in
    def change(typing: Any, numbers: Any, index: Any, value: Any) -> Any:
        def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
            place = _place(context, builder, signature.args, arguments)
            return builder.atomic_rmw(operation, place, arguments[2], ORDER)

        return types.int64(numbers, types.intp, types.int64), emit

    return change


atomic_add, atomic_set = _changing("add"), _changing("xchg")


@compiled_in
def atomic_get(typing: Any, numbers: Any, index: Any) -> Any:
    """numbers[index]."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        return builder.load_atomic(_place(context, builder, signature.args, arguments), ORDER, 8)

    return types.int64(numbers, types.intp), emit


@compiled_in
def rest_a_moment(typing: Any) -> Any:
    """For loops that wait: a moment in which the core does nothing, where it can be told to."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        if HAS_PAUSE:
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), PAUSE), [])
        return context.get_dummy_value()

    return types.void(), emit


PAUSE = ir.FunctionType(ir.VoidType(), [])


@compiled_in
def floats_at(typing: Any, address: Any) -> Any:
    """A pointer to the float32 at that address, for `numba.carray`."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        return builder.inttoptr(arguments[0], FLOAT.as_pointer())

    return types.CPointer(types.float32)(types.int64), emit


@compiled_in
def integers_at(typing: Any, address: Any) -> Any:
    """A pointer to the int64 at that address, for `numba.carray`."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        return builder.inttoptr(arguments[0], INDEX.as_pointer())

    return types.CPointer(types.int64)(types.int64), emit
