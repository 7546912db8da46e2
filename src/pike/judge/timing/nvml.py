"""The state of an NVIDIA GPU by the driver's own library, NVML, through ctypes.

Never changes a setting. Finds a GPU by its UUID or PCI address, because CUDA_VISIBLE_DEVICES
renumbers torch's devices and not NVML's (NVML API reference, chapter Device Queries).
"""

import ctypes
from functools import cache
from typing import Any

import torch

from pike.judge.timing.device_state import Reading, Reason

LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_OF_THE_CHIP = 0
_REASONS = {
    0x001: Reason.IDLE,
    0x002: Reason.APPLICATION_CLOCKS,
    0x004: Reason.POWER_CAP,
    0x008: Reason.HARDWARE_SLOWDOWN,
    0x010: Reason.SYNC_BOOST,
    0x020: Reason.SOFTWARE_THERMAL,
    0x040: Reason.HARDWARE_THERMAL,
    0x080: Reason.POWER_BRAKE,
    0x100: Reason.DISPLAY_CLOCKS,
}


class NvmlReader:
    """Reads one GPU; a quantity that the driver refuses to tell is None."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    def read(self) -> Reading:
        """The state now."""
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        return Reading(
            sm_mhz=self._number("nvmlDeviceGetClockInfo", _CLOCK_SM),
            memory_mhz=self._number("nvmlDeviceGetClockInfo", _CLOCK_MEMORY),
            celsius=self._number("nvmlDeviceGetTemperature", _SENSOR_OF_THE_CHIP),
            watts=None if milliwatts is None else milliwatts / 1000.0,
            reasons=self._reasons(),
        )

    def _number(self, name: str, *which: int) -> float | None:
        value = ctypes.c_uint()
        asked = [ctypes.c_uint(one) for one in which]
        return float(value.value) if _call(self._library, name, self._handle, *asked, ctypes.byref(value)) else None

    def _reasons(self) -> tuple[Reason, ...]:
        bits = ctypes.c_ulonglong()
        # The same function under its name since driver 535 and its name before.
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            if _call(self._library, name, self._handle, ctypes.byref(bits)):
                return reasons_of(bits.value)
        return ()


def reasons_of(bits: int) -> tuple[Reason, ...]:
    """The reasons in NVML's bit mask."""
    found = [reason for bit, reason in _REASONS.items() if bits & bit]
    return (*found, Reason.OTHER) if bits & ~sum(_REASONS) else tuple(found)


@cache
def reader_of(device: torch.device) -> NvmlReader | None:
    """The reader of a torch device; None on a CPU, or if NVML or the GPU in it is not found."""
    if device.type != "cuda":
        return None
    known: Any = torch.cuda.get_device_properties(device)
    bus_id = ""
    if hasattr(known, "pci_domain_id"):  # an older torch does not tell it
        bus_id = f"{known.pci_domain_id:08x}:{known.pci_bus_id:02x}:{known.pci_device_id:02x}.0"
    return open_reader(str(getattr(known, "uuid", "")), bus_id, LIBRARY)


def open_reader(uuid: str, bus_id: str = "", library: str = LIBRARY) -> NvmlReader | None:
    """The reader of the GPU with this UUID or else this PCI address; None if there is none.

    Torch writes the UUID without NVML's prefix.
    """
    opened = _opened(library)
    if opened is None:
        return None
    handle = ctypes.c_void_p()
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    # Clocks belong to the whole card. If it is partitioned, the UUID is a part's, and only the address finds the card.
    for ask, key in (("nvmlDeviceGetHandleByUUID", name), ("nvmlDeviceGetHandleByPciBusId_v2", bus_id)):
        if key and _call(opened, ask, ctypes.c_char_p(key.encode()), ctypes.byref(handle)):
            return NvmlReader(opened, handle)
    return None


def driver_version() -> str:
    """The driver's version, for example `580.95.05`; empty without NVML."""
    opened, text = _opened(LIBRARY), ctypes.create_string_buffer(80)
    if opened is None or not _call(opened, "nvmlSystemGetDriverVersion", text, ctypes.c_uint(len(text))):
        return ""
    return text.value.decode(errors="replace")


def _opened(library: str) -> ctypes.CDLL | None:
    """NVML, ready to be asked; None where it is not here or does not start."""
    try:
        opened = ctypes.CDLL(library)
    except OSError:
        return None
    return opened if _call(opened, "nvmlInit_v2") else None


def _call(library: ctypes.CDLL, name: str, *arguments: Any) -> bool:
    """Whether a function exists and succeeded."""
    function = getattr(library, name, None)
    return function is not None and function(*arguments) == _SUCCESS
