"""The reference trainer with the simulated device registered, as a torch plug-in registers it."""

from __future__ import annotations

from stepwatch.trainer.__main__ import main
from tests.simulated_device import device

if __name__ == "__main__":
    device.load()
    main()
