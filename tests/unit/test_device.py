"""Devices and arithmetic: what there is, what `auto` means, what is refused in words."""

import pytest
import torch

from seq2seq import device as module
from seq2seq.choices import Precision
from seq2seq.device import autocast, memory_advice, resolve_device, resolve_precision
from seq2seq.errors import UserError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("cuda", "mps", "wanted"),
    [(True, False, "cuda"), (True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto_takes_the_first_there_is(cuda, mps, wanted, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert resolve_device("auto") == torch.device(wanted)


def test_a_cpu_is_always_there():
    assert resolve_device("cpu") == CPU


@pytest.mark.filterwarnings("ignore:'mkldnn'")
@pytest.mark.parametrize(
    "name",
    [
        "",
        "gpu",
        "CPU",
        "cpu:x",
        "cuda:99",
        "meta",
        "hpu",
        "privateuseone",
        "xla",
        "mkldnn",
    ],
)
def test_devices_that_are_not_there_are_named(name):
    # meta tensors compute nothing, and would give nonsense in place of an error
    with pytest.raises(UserError, match=f"device={name} is not available here: use auto, cpu"):
        resolve_device(name)


@pytest.mark.parametrize("precision", [Precision.fp32, Precision.bf16])
def test_what_is_asked_for_is_given(precision):
    assert resolve_precision(precision, CPU) is precision


def test_half_precision_on_a_cpu_is_refused():
    with pytest.raises(UserError, match="fp16 needs a GPU"):
        resolve_precision(Precision.fp16, CPU)
    assert resolve_precision(Precision.fp16, CUDA) is Precision.fp16


@pytest.mark.parametrize(("gain", "wanted"), [(2.0, Precision.bf16), (0.5, Precision.fp32)])
def test_auto_on_a_cpu_follows_the_measurement(gain, wanted, monkeypatch):
    monkeypatch.setattr(module, "_cpu_bf16_gain", lambda: gain)
    assert resolve_precision(Precision.auto, CPU) is wanted


def test_auto_on_a_gpu_does_not_take_emulated_bf16(monkeypatch):
    # what PyTorch says of a GPU without bf16: it can be emulated
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation
    )
    assert resolve_precision(Precision.auto, CUDA) is Precision.fp16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    assert resolve_precision(Precision.auto, CUDA) is Precision.bf16


def test_auto_elsewhere_is_single_precision():
    assert resolve_precision(Precision.auto, torch.device("mps")) is Precision.fp32


def test_measuring_takes_no_random_numbers():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    assert module._cpu_bf16_gain(2) > 0.0
    assert torch.equal(torch.rand(3), wanted)


@pytest.mark.parametrize(
    ("precision", "dtype"), [(Precision.fp32, torch.float32), (Precision.bf16, torch.bfloat16)]
)
def test_products_inside_the_context(precision, dtype):
    x = torch.ones(2, 2)
    with autocast(CPU, precision):
        assert (x @ x).dtype is dtype
    assert (x @ x).dtype is torch.float32


def test_half_precision_context():
    with autocast(CPU, Precision.fp16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float16


def test_too_little_memory_is_one_sentence_of_advice():
    said = r"^The device has too little memory: use less\.$"
    with pytest.raises(UserError, match=said), memory_advice("use less"):
        raise torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="another"), memory_advice("use less"):
        raise RuntimeError("another")


def test_keeping_freed_memory_changes_no_result_and_may_be_asked_twice(monkeypatch):
    before = torch.arange(1e6).sum()
    module.keep_freed_memory()
    module.keep_freed_memory()
    assert torch.arange(1e6).sum() == before

    def other_library(name):
        raise OSError

    monkeypatch.setattr(module.ctypes, "CDLL", other_library)
    module.keep_freed_memory()
