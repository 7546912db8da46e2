"""The driver's library, played by a small one of our own: the real one needs a GPU."""

import shutil
import subprocess
from types import SimpleNamespace

import pytest
import torch

from pike.judge.timing.device_state import Reading, Reason
from pike.judge.timing.nvml import open_reader, reader_of, reasons_of

DRIVER = """
#include <string.h>
typedef void *device;
static int cards[2];
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, device *found) {
    if (strcmp(uuid, "GPU-0a1b")) return 6;
    *found = &cards[1];
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, device *found) {
    if (strcmp(address, "00000000:17:00.0")) return 6;
    *found = &cards[1];
    return 0;
}
int nvmlDeviceGetClockInfo(device card, unsigned kind, unsigned *mhz) {
    if (card != &cards[1]) return 2;
    *mhz = kind == 1 ? 1980 : kind == 2 ? 2619 : 0;
    return 0;
}
int nvmlDeviceGetTemperature(device card, unsigned sensor, unsigned *celsius) { *celsius = 41 + sensor; return 0; }
int nvmlDeviceGetPowerUsage(device card, unsigned *milliwatts) { *milliwatts = 310500; return POWER; }
int REASONS(device card, unsigned long long *bits) { *bits = 0x24; return 0; }
"""
FULL = Reading(1980.0, 2619.0, 41.0, 310.5, (Reason.POWER_CAP, Reason.SOFTWARE_THERMAL))

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture
def driver(tmp_path):
    def built(reasons="nvmlDeviceGetCurrentClocksEventReasons", power=0):
        path = tmp_path / f"lib{reasons}{power}.so"
        (tmp_path / "driver.c").write_text(DRIVER)
        words = [
            "cc",
            "-shared",
            "-fPIC",
            f"-DREASONS={reasons}",
            f"-DPOWER={power}",
            "-o",
            path,
            tmp_path / "driver.c",
        ]
        subprocess.run(words, check=True)
        return str(path)

    return built


def test_a_gpu_is_read_by_its_uuid(driver):
    assert open_reader("0a1b", library=driver()).read() == FULL


@pytest.mark.parametrize(
    "known",
    [
        SimpleNamespace(uuid="0a1b"),
        SimpleNamespace(uuid="77", pci_domain_id=0, pci_bus_id=0x17, pci_device_id=0),
    ],
    ids=["uuid", "address"],
)
def test_a_torch_device_is_found_by_what_torch_knows_of_it(driver, monkeypatch, known):
    """Whatever its number is: here it is the driver's second card."""
    monkeypatch.setattr("pike.judge.timing.nvml.LIBRARY", driver())
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: known)
    assert reader_of.__wrapped__(torch.device("cuda:0")).read() == FULL


def test_a_part_of_a_gpu_is_read_by_the_address_of_the_whole(driver):
    assert open_reader("MIG-77", "00000000:17:00.0", driver()).read() == FULL


def test_an_older_driver_has_the_reasons_under_their_old_name(driver):
    assert open_reader("0a1b", library=driver("nvmlDeviceGetCurrentClocksThrottleReasons")).read() == FULL


def test_what_the_driver_does_not_tell_is_none(driver):
    found = open_reader("0a1b", library=driver("none_of_both", power=3)).read()
    assert found == Reading(1980.0, 2619.0, 41.0, None, ())


def test_an_unknown_gpu_and_a_missing_library_give_no_reader(driver):
    assert open_reader("another", "00000000:18:00.0", driver()) is None
    assert open_reader("0a1b", library="libno-such-library.so.1") is None
    assert reader_of(torch.device("cpu")) is None


def test_a_reason_that_is_not_known_yet_is_not_lost():
    assert reasons_of(0x800 | 0x1) == (Reason.IDLE, Reason.OTHER)
