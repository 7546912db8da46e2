"""A candidate for `zoo/llama3_step` with other values of its constants, beside each other: what costs the time?

Run `python benchmarks/step_variants.py ANSWER [NAME=VALUE,... | no-memory | no-waiting ...] [--profile]` on a GPU with
nvcc. ANSWER is the id of one in `gallery/step.tar.xz`, as c1, or a file like it. NAME is a constant of its CUDA.
`no-memory` reads no weights, `no-waiting` waits for no other block; both compute nonsense. For each variant prints the
relative error, and milliseconds (median, 5 % and 95 %) of 200 calls with a cold L2 cache, outside the judge.
`--profile` prints when two blocks reached the points `T(k)` of ANSWER in some layers, in nanoseconds; it costs time.
"""

import argparse
import ctypes
import re
import subprocess
import sys
import tarfile
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from pike import store
from pike.core.events import Proposed
from pike.tasks.suites.zoo import llama3_step as task

CALLS, LAYERS = 200, (0, 1, 5, 10)
CLOCK = (
    "if (tid == 0 && (block == 0 || block == 100)) { long long c_;"
    ' asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(c_));'
    " reinterpret_cast<long long*>(a.state + 16)[(block ? 512 : 0) + layer * 32 + (k)] = c_; }"
)


def main() -> None:
    """Build all variants, then measure one after the other."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("answer")
    arguments.add_argument("variants", nargs="*", default=[])
    arguments.add_argument("--profile", action="store_true")
    given = arguments.parse_args()
    source = answer(given.answer)
    if given.profile and not re.search(r"\bT\(\d+\);", source):
        sys.exit(f"{given.answer} marks no points T(k) to profile.")
    variants = ["as-it-is", *given.variants]
    with TemporaryDirectory() as scratch:
        with ThreadPoolExecutor() as pool:
            made = pool.map(lambda one: built(varied(source, one), Path(scratch), one, given.profile), variants)
            libraries = dict(zip(variants, made, strict=True))
        if not torch.cuda.is_available():
            sys.exit("All variants build; there is no GPU to measure them on.")
        with torch.inference_mode():
            measure(source, libraries, given.profile)


def answer(name: str) -> str:
    """The source of an answer in the archive, or of a file."""
    if Path(name).exists():
        return Path(name).read_text()
    with TemporaryDirectory() as scratch, tarfile.open(Path(__file__).parent / "gallery" / "step.tar.xz") as packed:
        packed.extractall(scratch, filter="data")
        (journal,) = Path(scratch).rglob("journal.sqlite")
        proposed = [entry.event.candidate for entry in store.read(journal.parent) if isinstance(entry.event, Proposed)]
    sources = {candidate.id: candidate.source for candidate in proposed}
    return sources.get(name) or sys.exit(f"{name} is neither a file nor one of the answers {', '.join(sources)}.")


def varied(source: str, variant: str) -> str:
    """The CUDA of a candidate, with other constants or without a part of its work."""
    cuda = re.search(r'CUDA_SOURCE = r"""(.*?)"""', source, re.DOTALL)[1]  # type: ignore[index]
    if variant == "as-it-is":
        return cuda
    for part in variant.split(","):
        if part == "no-waiting":
            count, cuda = cuda.count("!= EMPTY"), cuda.replace("!= EMPTY", ">= 0u")
        elif part == "no-memory":
            cuda, count = re.subn(r"(void bulk\([^{]*\{).*?\n\}", r"\1}", cuda, count=1, flags=re.DOTALL)
            cuda = cuda.replace(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;", "mbarrier.arrive.shared::cta.b64 _, [%0];"
            )
        else:
            name, _, value = part.partition("=")
            cuda, count = re.subn(rf"\b{name} = \d+(?=[,;])", f"{name} = {value}", cuda, count=1)
        if not count:
            sys.exit(f"The file has nothing to change for the variant {variant}: {part}")
    return cuda


def built(cuda: str, scratch: Path, variant: str, profile: bool) -> Path:
    """A library with the function `launch_step`."""
    path = scratch / re.sub(r"\W", "_", variant)
    path.with_suffix(".cu").write_text(cuda.replace("void launch_step(", 'extern "C" void launch_step(', 1))
    clock = [f"-DT(k)={CLOCK}"] if profile else []
    command = ["nvcc", "-O3", "-w", "-gencode=arch=compute_90,code=sm_90", "-shared", "-Xcompiler", "-fPIC", *clock]
    done = subprocess.run([*command, "-o", path.with_suffix(".so"), path.with_suffix(".cu")], check=False)
    if done.returncode:
        sys.exit(f"The variant {variant} does not build.")
    return path.with_suffix(".so")


def measure(source: str, libraries: dict[str, Path], profile: bool) -> None:
    """Print a line for each variant."""
    torch.manual_seed(0)
    model = task.Model().cuda().eval()
    ids = torch.randint(task.VOCABULARY, (task.BATCH, 1), device="cuda")
    wanted = model(ids)
    code = re.sub(r"_ext = load_inline\(.*?\n\)\n", "", source.replace("zeros(2, ", "zeros(4096, "), flags=re.DOTALL)
    candidate: Any = types.ModuleType("candidate")
    exec(compile(code, "candidate", "exec"), candidate.__dict__)
    new = candidate.ModelNew.from_reference(model).cuda()
    cold = torch.empty(2**26, dtype=torch.int32, device="cuda")
    for variant, library in libraries.items():
        candidate._ext = Extension(library)
        new._scratch.clear()
        times, got = timed(new, ids, cold)
        error = float((got - wanted).norm() / wanted.norm())
        middle = [times[len(times) * part // 100] for part in (50, 5, 95)]
        print(f"{variant:40} error {error:.4f}  ms", *(f"{one:.4f}" for one in middle), flush=True)
        if profile:
            points = next(iter(new._scratch.values()))[1][16 : 16 + 2048].cpu().view(torch.int64).view(2, 16, 32)
            for block in range(2):
                for layer in LAYERS:
                    print(block, layer, (points[block, layer] - points[0, 0, 0]).tolist(), flush=True)


def timed(new: Any, ids: torch.Tensor, cold: torch.Tensor) -> tuple[list[float], torch.Tensor]:
    """Sorted milliseconds of calls after `cold` was written, and the last result."""
    times = []
    for _ in range(CALLS):
        cold.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        got = new(ids)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times), got


class Extension:
    """Stands for the extension that a candidate builds."""

    def __init__(self, library: Path) -> None:
        self.launch = ctypes.CDLL(str(library)).launch_step
        self.launch.argtypes = [ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p]

    def decode_step(self, ids: torch.Tensor, logits: torch.Tensor, tensors: list[torch.Tensor], eps: float) -> None:
        """As the candidate calls it."""
        pointers = [one.data_ptr() for one in (ids, logits, *tensors)]
        stream = torch.cuda.current_stream().cuda_stream
        self.launch((ctypes.c_void_p * len(pointers))(*pointers), eps, stream)


if __name__ == "__main__":
    main()
