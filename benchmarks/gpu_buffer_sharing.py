"""Which way of sharing GPU buffers works between judge and child: legacy CUDA IPC or exported virtual memory (ADR
0004).

Run `python benchmarks/gpu_buffer_sharing.py` as root on a machine with an NVIDIA GPU. Each way is tried with the
child in the same PID namespace and in one of its own, and the time to attach 64 MiB is taken. Needs torch only.
"""

import json
import pickle
import shutil
import socket
import subprocess
import sys
import time

import torch

from pike.judge.child.memory import regions

NBYTES = 64 << 20
CHILD = "--child"


def parent(way: str, isolated: bool) -> dict[str, object]:
    ours, theirs = socket.socketpair()
    device = torch.device("cuda:0")
    if way == "vmm":
        region = regions.allocate(NBYTES, device)
        tensor, body, fds = region.tensor, region.nbytes, [region.fd]
    else:
        tensor, fds = torch.zeros(NBYTES, dtype=torch.uint8, device=device), []
        body = tensor.untyped_storage()._share_cuda_()
    tensor.fill_(7)
    torch.cuda.synchronize()
    argv = [sys.executable, __file__, CHILD, way, str(theirs.fileno())]
    if isolated:
        argv = ["unshare", "--pid", "--fork", "--mount-proc", *argv]
    child = subprocess.Popen(argv, pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, text=True)
    theirs.close()
    data = pickle.dumps(body)
    socket.send_fds(ours, [len(data).to_bytes(8, "little")], fds)
    ours.sendall(data)
    answer = ours.recv(4096).decode()
    _, errors = child.communicate(timeout=60)
    torch.cuda.synchronize()
    seen = int(tensor[0]) if answer else 0
    words = errors.strip().splitlines()[-1][:160] if errors.strip() else ""
    return {"way": way, "own_pid_namespace": isolated, "works": seen == 9, "attach_ms": answer, "error": words}


def child(way: str, fd: int) -> None:
    sock = socket.socket(fileno=fd)
    header, fds, _, _ = socket.recv_fds(sock, 8, 4)
    size = int.from_bytes(header, "little")
    data = b""
    while len(data) < size:
        data += sock.recv(size - len(data))
    body = pickle.loads(data)
    torch.zeros(1, device="cuda:0")
    torch.cuda.synchronize()
    started = time.perf_counter()
    if way == "vmm":
        tensor = regions.attach(fds[0], body, torch.device("cuda:0")).tensor
    else:
        storage = torch.UntypedStorage._new_shared_cuda(*body)
        tensor = torch.empty(0, dtype=torch.uint8, device="cuda:0").set_(storage)
    attached = (time.perf_counter() - started) * 1e3
    assert int(tensor[0]) == 7, "the child does not see what the parent wrote"
    tensor.fill_(9)
    torch.cuda.synchronize()
    sock.sendall(f"{attached:.2f}".encode())


def main() -> None:
    if CHILD in sys.argv:
        child(sys.argv[2], int(sys.argv[3]))
        return
    print(torch.cuda.get_device_name(), torch.__version__)
    for way in ("legacy", "vmm"):
        for isolated in (False, True):
            if isolated and not shutil.which("unshare"):
                print("no unshare here")
                continue
            print(json.dumps(parent(way, isolated)), flush=True)


if __name__ == "__main__":
    main()
