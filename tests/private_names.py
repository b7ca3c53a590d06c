"""Names of other libraries that are not documented and that something here rests on, each with where, and with the
version that it was seen in. The tests take theirs from here; test_private_names.py says which is gone.
"""

import inspect
from importlib import import_module

import torch
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: F401


def occupy_gpu(cycles: int) -> None:
    """Keep the current stream of the GPU busy."""
    torch.cuda._sleep(cycles)


def argument_names(operator) -> list[str]:
    return [argument.name for argument in operator._schema.arguments]


def _of(module: str, *names: str):
    found = import_module(module)
    for name in names:
        found = getattr(found, name)
    return found


def _mentions(module: str, name: str, *words: str) -> None:
    missing = [word for word in words if word not in inspect.getsource(_of(module, name))]
    if missing:
        raise AttributeError(f"{module}.{name} has no {missing}")


# (library, version seen in, what, where it is used): raises where it is not there
NAMES = {
    ("triton", "3.9.0", "create_masked_load(ptrs, mask, other, ...)", "lesson_4_4/masking.py"): lambda: (
        _of("triton.runtime.interpreter", "TensorHandle"),
        _of("triton.runtime.interpreter", "interpreter_builder"),
        _mentions("triton.runtime.interpreter", "InterpreterBuilder", "def create_masked_load(self, ptrs, mask, other"),
    ),
    ("triton", "3.9.0", "a kernel's fn and run", "lesson_4_4/masking.py"): lambda: (
        _of("triton.runtime.interpreter", "InterpretedFunction", "run"),
        _mentions("triton.runtime.interpreter", "InterpretedFunction", "self.fn = fn"),
        _of("triton.runtime.jit", "JITFunction", "run"),
    ),
    ("triton", "3.9.0", "the interpreter's load, store and patches", "judge/guarded.py"): lambda: (
        _of("triton.runtime.interpreter", "_interpreter", "load"),
        _of("triton.runtime.interpreter", "_interpreter", "store"),
        _of("triton.runtime.interpreter", "_patch_lang"),
        _of("triton.runtime.interpreter", "_patch_lang_tensor"),
        _of("triton.runtime.interpreter", "_implicit_cvt"),
        _of("triton.runtime.interpreter", "_get_np_dtype"),
        _of("triton.runtime.interpreter", "InterpretedFunction", "rewrite"),
        _of("triton.runtime.interpreter", "InterpreterBuilder", "set_grid_idx"),
        _of("triton.runtime.interpreter", "InterpreterBuilder", "set_grid_dim"),
        _mentions("triton.runtime.interpreter", "InterpreterBuilder", "_interpreter.load(", "_interpreter.store("),
    ),
    ("triton", "3.9.0", "compiling without a device", "judge/compiled.py"): lambda: (
        _of("triton.backends.compiler", "GPUTarget"),
        _of("triton.runtime", "driver", "set_active"),
        _of("triton.runtime.jit", "JITFunction", "warmup"),
        _mentions("triton.compiler.errors", "CompilationError", "self.src", "self.node", "error_message"),
    ),
    ("triton", "3.9.0", "run, function and packed_metadata of a compiled kernel", "triton/launch.py"): lambda: (
        _of("triton.compiler", "CompiledKernel", "run"),
        _mentions("triton.compiler", "CompiledKernel", "self.function =", "self.packed_metadata ="),
    ),
    ("triton", "3.9.0", "run(..., grid, warmup) of a kernel, and a driver to set", "bench/ahead_child.py"): lambda: (
        _mentions("triton.runtime.jit", "JITFunction", "def run(self, *args, grid, warmup"),
        _of("triton.runtime", "driver", "__class__", "set_active"),
        _of("triton.backends.compiler", "GPUTarget"),
    ),
    ("triton", "3.9.0", "runtime.driver.active", "attention/triton/launch.py"): lambda: _of(
        "triton.runtime", "driver", "__class__", "active"
    ),
    ("torch", "2.13.0", "utils._python_dispatch.TorchDispatchMode", "test_attention_cost.py"): lambda: _of(
        "torch.utils._python_dispatch", "TorchDispatchMode", "__torch_dispatch__"
    ),
    ("torch", "2.13.0", "cuda._sleep", "test_device_tables.py, test_triton_launch.py"): lambda: _of(
        "torch.cuda", "_sleep"
    ),
    ("torch", "2.13.0", "an operator's _schema", "test_attention_backends.py"): lambda: argument_names(
        torch.ops.aten.add.Tensor
    ),
    ("_signal", "3.11.7", "signal and getsignal, which give handlers as they are", "engine/interrupt.py"): lambda: (
        _of("_signal", "signal"),
        _of("_signal", "getsignal"),
    ),
}
