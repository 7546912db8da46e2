"""Encrypted inputs and committed outputs: noise without the key, and no other bytes for a digest."""

import ctypes

import pytest
import torch
from tests.judge.host_cipher import HostCipher

from pike.judge.calls import nvrtc
from pike.judge.child.memory.cipher import CudaCipher, device_address
from pike.judge.child.memory.control_page import PAGE_BYTES, ControlPage, key_words

KEY = bytes(range(16))
OTHER_KEY = bytes(range(1, 17))
SIZES = [(1,), (3, 5), (0,), (1000,), (123_457,)]


def control_page() -> ControlPage:
    return ControlPage(torch.zeros(PAGE_BYTES, dtype=torch.uint8))


def digest(*leaves: torch.Tensor, key: bytes = KEY) -> bytes:
    page = control_page()
    targets = [torch.empty_like(leaf, memory_format=torch.contiguous_format) for leaf in leaves]
    cipher = HostCipher(page)
    cipher.set_key(key)
    cipher.commit(leaves, cipher.route(targets), 1, first=True)
    assert all(torch.equal(target, leaf) for target, leaf in zip(targets, leaves, strict=True))
    return page.digest()


def test_a_locked_input_is_noise_until_the_key_is_known() -> None:
    real = torch.zeros(1 << 16, dtype=torch.uint8)
    encrypted, wrong, right = (torch.empty_like(real) for _ in range(3))
    cipher = HostCipher(control_page())
    cipher.set_key(KEY)
    cipher.decrypt(real, encrypted)
    counts = torch.bincount(encrypted.long(), minlength=256).double()
    assert ((counts - 256) ** 2 / 256).sum() < 400  # chi-squared, 255 degrees of freedom
    cipher.decrypt(encrypted, right)
    cipher.set_key(OTHER_KEY)
    cipher.decrypt(encrypted, wrong)
    assert torch.equal(right, real)
    assert (wrong == real).double().mean() < 0.02


def test_a_digest_changes_with_every_bit_place_and_key() -> None:
    values = torch.arange(5000, dtype=torch.float32)
    seen = {digest(values), digest(values, key=OTHER_KEY), digest(values[:-1]), digest(values.flip(0))}
    for place in (0, 1, 2500, 4999):
        changed = values.clone()
        changed.view(torch.int32)[place] ^= 1
        seen.add(digest(changed))
    assert len(seen) == 8


def test_a_digest_depends_on_every_output() -> None:
    leaves = [torch.full((7,), float(number)) for number in range(20)]  # more than one launch takes
    seen = {digest(*leaves)}
    for number in range(20):
        changed = [leaf + (1.0 if place == number else 0.0) for place, leaf in enumerate(leaves)]
        seen.add(digest(*changed))
    assert len(seen) == 21


def test_nothing_is_published_before_the_last_output() -> None:
    page = control_page()
    cipher, leaf = HostCipher(page), torch.ones(4)
    cipher.set_key(KEY)
    cipher.commit([leaf], [leaf], 0, first=True)
    assert page.committed() == 0
    cipher.commit([leaf], [leaf], 9, first=False)
    assert page.committed() == 9


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_kernels_compute_what_the_host_computes() -> None:
    device = torch.device("cuda:0")
    torch.zeros(1, device=device)
    capability = "".join(str(part) for part in torch.cuda.get_device_capability(device))
    memory = ctypes.create_string_buffer(2 * PAGE_BYTES)
    start = -ctypes.addressof(memory) % PAGE_BYTES
    page = torch.frombuffer(memory, dtype=torch.uint8)[start : start + PAGE_BYTES]
    cipher = CudaCipher(nvrtc.cipher_kernels(capability), device, device_address(page))
    host_page = control_page()
    host = HostCipher(host_page)
    host.set_key(KEY)
    noise = torch.randint(0, 256, (1 << 20,), dtype=torch.uint8)
    on_host, on_device = torch.empty_like(noise), torch.empty_like(noise, device=device)
    host.decrypt(noise, on_host)
    ControlPage(page).go(7, key_words(KEY))
    cipher.await_key(7)
    cipher.decrypt(noise.to(device), on_device)
    assert torch.equal(on_host, on_device.cpu())
    leaves = [torch.randn(size) for size in (*SIZES, *SIZES)] + [torch.randn(64, 65).t()]
    targets = [torch.empty(leaf.shape, device=device) for leaf in leaves]
    route, host_route = cipher.route(targets), host.route([torch.empty(leaf.shape) for leaf in leaves])
    for ticket in (1, 2):
        host.commit(leaves, host_route, ticket, first=ticket == 1)
        cipher.commit([leaf.to(device) for leaf in leaves], route, ticket, first=ticket == 1)
        torch.cuda.synchronize()
        assert ControlPage(page).committed() == ticket
        assert ControlPage(page).digest() == host_page.digest()
    assert all(torch.equal(target.cpu(), leaf) for target, leaf in zip(targets, leaves, strict=True))
